"""HTTP clients of model providers: retry, circuit breaker, and provider errors."""
