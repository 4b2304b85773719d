"""Tables, files and generators to arrays: everything before the first bijection."""
