#!/usr/bin/env bash
# Search tools with curl, and call one: SKILLBUS_API_KEY=… examples/clients/curl/search_and_call.sh
set -euo pipefail
url=${SKILLBUS_URL:-http://127.0.0.1:8080}

# The key goes through a file descriptor: arguments of a process are visible to others.
api() { curl --silent --show-error --fail-with-body --header @<(echo "Authorization: Bearer $SKILLBUS_API_KEY") "$@"; }

# The tools that fit, and their schemas for a model ("openai", "anthropic" or "mcp").
api "$url/api/tools/search" --json '{"query": "work out an expression", "limit": 3, "format": "openai"}'
echo

# One call for tools of every type. Ids need no escaping.
api "$url/api/tools/builtin:calculate/call" --json '{"arguments": {"expression": "(4 + 5) * 3"}}'
echo

# The same as Server-Sent Events: for a skill, its output arrives while it runs.
api --no-buffer "$url/api/tools/builtin:calculate/call?stream=true" --json '{"arguments": {"expression": "2 ** 10"}}'
