// Makes a table of contents for a Markdown document given as {"text" | "file", "min_level"?, "max_level"?}.
"use strict";

const { SkillError, run, integerOf, textOrFile, writeArtifact } = require("./skillio.cjs");

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const HASHED = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const NOT_A_PARAGRAPH = /^\s*$|^ {0,3}(?:#|>|[-*+] |\d+[.)] )|^ {4}|^\s*\|/;
const MARKED = /(<!-- toc -->)[^]*?(<!-- \/toc -->)/i;

function makeToc(args) {
  const text = textOrFile(args).replace(/^\uFEFF/, "");
  const low = integerOf(args, "min_level", 2, 1, 6);
  const high = integerOf(args, "max_level", 4, 1, 6);
  if (low > high) throw new SkillError("'min_level' must not be above 'max_level'");
  const every = withAnchors(headings(text.split(/\r?\n/)));
  const chosen = every.filter(({ level }) => level >= low && level <= high);
  const base = Math.min(...chosen.map(({ level }) => level));
  const toc = chosen.map(({ level, title, anchor }) => `${"  ".repeat(level - base)}- [${title}](#${anchor})`).join("\n");
  writeArtifact("document.md", inserted(text, toc, every[0]));
  return { toc, headings: chosen.map(({ level, title, anchor }) => ({ level, title, anchor })) };
}

/** Headings outside fenced code, with the number of the line that each ends on (from 0). */
function headings(lines) {
  const found = [];
  let fence = null;
  lines.forEach((line, index) => {
    const mark = FENCE.exec(line);
    if (fence) {
      if (mark && mark[1].startsWith(fence) && !mark[2].trim()) fence = null;
      return;
    }
    if (mark) fence = mark[1];
    else {
      const heading = headingAt(lines, index);
      if (heading) found.push({ ...heading, line: index });
    }
  });
  return found;
}

function headingAt(lines, index) {
  const hashed = HASHED.exec(lines[index]);
  if (hashed) return { level: hashed[1].length, title: plain(hashed[2] ?? "") };
  const underline = UNDERLINE.exec(lines[index]);
  const above = lines[index - 1] ?? "";
  if (!underline || NOT_A_PARAGRAPH.test(above)) return null;
  return { level: underline[1][0] === "=" ? 1 : 2, title: plain(above) };
}

/** The words of a heading without links, images, emphasis and code marks. */
function plain(title) {
  return title
    .replace(/!?\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])/g, "$1")
    .replace(/<[^>]+>/g, "")
    .replace(/[*`]|(?<!\w)_|_(?!\w)/g, "")
    .trim();
}

/** GitHub's anchors: lower case, punctuation dropped, spaces to hyphens, repeats numbered. */
function withAnchors(found) {
  const seen = new Map();
  return found.map((heading) => {
    const slug = heading.title.toLowerCase().replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, "").replace(/ /g, "-");
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return { ...heading, anchor: count ? `${slug}-${count}` : slug };
  });
}

function inserted(text, toc, first) {
  if (MARKED.test(text)) return text.replace(MARKED, (_, open, close) => `${open}\n${toc}\n${close}`);
  if (!toc) return text;
  const lines = text.split("\n");
  lines.splice(first.line + 1, 0, "", "<!-- toc -->", toc, "<!-- /toc -->");
  return lines.join("\n");
}

run(makeToc);
