"""HTTP clients of model providers: retry, circuit breaker, keys by reference, and the errors of a provider."""
