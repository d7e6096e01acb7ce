"""The side of mem0 in `learning_beside_mem0.py`, in an environment of its own.

Reads a JSON object from standard input: `url` of the scripted model, `texts` to learn from and `dimensions` of the
embeddings. Prints the memories that are kept in the end. All of it is in the folder MEM0_DIR.
"""

import json
import os
import sys
from pathlib import Path

from mem0 import Memory


def main() -> None:
    given = json.load(sys.stdin)
    folder = Path(os.environ["MEM0_DIR"])
    server = {"model": "m", "openai_base_url": given["url"], "api_key": "none"}
    store = {"path": str(folder / "vectors"), "embedding_model_dims": given["dimensions"]}
    memory = Memory.from_config(
        {
            "llm": {"provider": "openai", "config": server},
            "embedder": {"provider": "openai", "config": server | {"embedding_dims": given["dimensions"]}},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(folder / "history.db"),
        }
    )
    for text in given["texts"]:
        memory.add([{"role": "user", "content": text}], user_id="team")
    kept = memory.get_all(filters={"user_id": "team"}, top_k=10_000)["results"]
    json.dump([it["memory"] for it in kept], sys.stdout)


if __name__ == "__main__":
    main()
