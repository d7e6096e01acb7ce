/** A client of skillbus over HTTP, without packages: search tools, call them, follow a run. */

export interface ToolHit {
  id: string;
  name: string;
  description: string;
  /** Calibrated relevance from 0 to 1. */
  score: number;
  /** False for tools that are only described here. */
  callable: boolean;
}

/** Tool behind a name that a model knows. */
export interface ToolReference {
  id: string;
  /** Action of a skill. Null for its default action and for other tools. */
  action: string | null;
}

export interface ToolsFound {
  results: ToolHit[];
  /** Schemas for a model, in the requested format. */
  tools: unknown[];
  names: Record<string, ToolReference>;
}

export interface ToolCalled {
  run_id: string;
  is_error: boolean;
  content: { type: string; text?: string; uri?: string }[];
  structured: unknown;
  duration_ms: number;
}

export type CallEvent =
  | { event: "begun"; data: { run_id: string } }
  | { event: "output"; data: { stream: "stdout" | "stderr"; text: string } }
  | { event: "reply"; data: ToolCalled };

/** Problem document of the server (RFC 9457). */
export class SkillbusError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(`${code}: ${detail}`);
  }
}

export class Skillbus {
  constructor(
    private readonly url: string,
    private readonly apiKey: string,
  ) {}

  async searchTools(query: string, format: "openai" | "anthropic" | "mcp", limit = 5): Promise<ToolsFound> {
    return (await this.post("/api/tools/search", { query, format, limit })).json();
  }

  /** Call a tool of any type. A failure of the tool is a normal reply: see `is_error`. */
  async callTool(tool: ToolReference, args: Record<string, unknown>): Promise<ToolCalled> {
    return (await this.post(callPath(tool), { arguments: args, action: tool.action })).json();
  }

  /** Call a tool and yield its output while it runs. Leaving the loop early cancels the call. */
  async *followTool(tool: ToolReference, args: Record<string, unknown>): AsyncGenerator<CallEvent> {
    const stop = new AbortController();
    try {
      const response = await this.post(`${callPath(tool)}?stream=true`, { arguments: args, action: tool.action }, stop.signal);
      let text = "";
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
        const blocks = (text + piece).split("\n\n");
        text = blocks.pop()!;
        for (const block of blocks) {
          const match = /^event: (\w+)\ndata: (.*)$/s.exec(block);
          if (match?.[1] === "error") throw toError(JSON.parse(match[2]!));
          if (match) yield { event: match[1], data: JSON.parse(match[2]!) } as CallEvent;
        }
      }
    } finally {
      stop.abort();
    }
  }

  private async post(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    const response = await fetch(this.url + path, {
      method: "POST",
      headers: { Authorization: `Bearer ${this.apiKey}`, "Content-Type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
    if (!response.ok) throw toError(await response.json());
    return response;
  }
}

function callPath(tool: ToolReference): string {
  return `/api/tools/${encodeURIComponent(tool.id)}/call`;
}

function toError(problem: { status: number; code: string; detail: string }): SkillbusError {
  return new SkillbusError(problem.status, problem.code, problem.detail);
}
