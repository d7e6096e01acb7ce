"""Files of a job: opened, unpacked, decoded and recognized."""
