"""Pages for people in a browser. A page only reads: what changes something is sent to the REST API by `skillbus.js`."""
