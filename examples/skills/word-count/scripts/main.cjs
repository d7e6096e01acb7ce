// Counts characters, words and sentences of a text given as {"text" | "file", "top"?}.
"use strict";

const { SkillError, run, integerOf, textOrFile } = require("./skillio.cjs");

const HAN_PER_MINUTE = 400;
const WORDS_PER_MINUTE = 230;
const MAX_CHARACTERS = 4_000_000; // segmenting takes some seconds a million
// The segmenter copies its whole input into every segment, so it is fed short stretches, cut behind a space or a mark.
const STRETCH = /[^]{1,199}(?:[\s\p{P}]|$)|[^]{1,200}/gu;
const SENTENCE_END = /[。！？!?…]+|\.+(?=\s|$)|\n/u;

function count(args) {
  const given = textOrFile(args);
  if (given.length > MAX_CHARACTERS) throw new SkillError(`the text has more than ${MAX_CHARACTERS} characters; split it`);
  const text = given.replace(/^\uFEFF/, "").replace(/\r\n?/g, "\n");
  const words = wordsOf(text);
  const han = matches(text, /\p{Script=Han}/gu);
  const latin = words.filter((word) => /\p{L}|\p{N}/u.test(word) && !/\p{Script=Han}/u.test(word)).length;
  return {
    characters: [...text].length,
    characters_without_spaces: matches(text, /\S/gu),
    han_characters: han,
    latin_words: latin,
    words: words.length,
    sentences: text.split(SENTENCE_END).filter((part) => /[\p{L}\p{N}]/u.test(part)).length,
    paragraphs: text.split(/\n\s*\n/).filter((part) => part.trim()).length,
    lines: text ? text.replace(/\n$/, "").split("\n").length : 0,
    reading_minutes: Math.round((han / HAN_PER_MINUTE + latin / WORDS_PER_MINUTE) * 10) / 10,
    top_words: topWords(words, integerOf(args, "top", 10, 0, 100)),
  };
}

function matches(text, pattern) {
  let found = 0;
  for (const _ of text.matchAll(pattern)) found += 1;
  return found;
}

function wordsOf(text) {
  const segmenter = new Intl.Segmenter("zh", { granularity: "word" });
  const words = [];
  for (const [stretch] of text.matchAll(STRETCH)) {
    for (const { segment, isWordLike } of segmenter.segment(stretch)) if (isWordLike) words.push(segment);
  }
  return words;
}

function topWords(words, limit) {
  const counts = new Map();
  for (const word of words.map((one) => one.toLowerCase()).filter((one) => [...one].length > 1)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const ordered = [...counts].sort(([left, more], [right, less]) => less - more || (left < right ? -1 : 1));
  return ordered.slice(0, limit).map(([word, times]) => ({ word, times }));
}

run(count);
