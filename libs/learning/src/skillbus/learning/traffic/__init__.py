"""Rules of HTTP interfaces, learned from access logs and HAR files."""
