"""The tracker and the timeline from afar: the same verbs, over HTTP."""
