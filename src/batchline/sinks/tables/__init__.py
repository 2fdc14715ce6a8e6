"""Tables of users that parcels are written to, a file per kind of database."""
