"""The bus: requests on the NATS services API, facts on JetStream, files in the object store."""
