"""What goes over HTTP: the forms of requests and answers, one of each for the service and for its clients."""
