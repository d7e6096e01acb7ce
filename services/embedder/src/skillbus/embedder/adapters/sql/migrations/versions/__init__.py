"""One module a step; each gets the operations that it is to do its work with."""
