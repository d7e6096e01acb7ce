"""Reading of sentences by a chat model: the question, its answer, and when it is asked."""
