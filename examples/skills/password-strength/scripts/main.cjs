// Estimates how hard a password given as {"password"} is to guess. Never prints any part of it.
"use strict";

const { SkillError, run, textOf } = require("./skillio.cjs");

const GUESSES_PER_SECOND = 1e10; // offline, a fast hash on one graphics card
const COMMON =
  "password passw0rd 123456 qwerty abc123 letmein admin welcome monkey dragon iloveyou login master sunshine princess " +
  "football shadow superman trustno1 root test user guest hello secret woaini 5201314 1314520 a123456 zxcvbn asdfgh";
const SEQUENCES = ["abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm", "1qaz2wsx3edc4rfv"];
const LEET = { 0: "o", 1: "l", 3: "e", 4: "a", 5: "s", 7: "t", "@": "a", $: "s", "!": "i" };
const CLASSES = [[/[a-z]/, 26], [/[A-Z]/, 26], [/[0-9]/, 10], [/[ -/:-@[-`{-~]/, 33], [/[^\x00-\x7f]/, 2000]];
const LEVELS = [
  [28, "很弱"],
  [40, "弱"],
  [60, "一般"],
  [80, "强"],
  [Infinity, "很强"],
];

function assess(args) {
  const password = textOf(args, "password");
  const length = [...password].length;
  if (!length) throw new SkillError("the password is empty");
  if (length > 256) throw new SkillError("the password is longer than 256 characters");
  const found = patterns(password);
  const bits = entropy(password, found);
  const score = LEVELS.findIndex(([limit]) => bits < limit);
  return {
    score,
    label: LEVELS[score][1],
    entropy_bits: Math.round(bits * 10) / 10,
    crack_time: duration(2 ** (bits - 1) / GUESSES_PER_SECOND),
    length,
    weaknesses: [...new Set(found.map(({ name }) => name))],
    advice: advice(password, length, found, score),
  };
}

/** Guessable stretches as {name, length, bits}, none overlapping another; the longest win. */
function patterns(password) {
  const lower = password.toLowerCase();
  const plain = [...lower].map((sign) => LEET[sign] ?? sign).join("");
  const candidates = [
    ...COMMON.split(" ").flatMap((word) => places(lower, word).concat(places(plain, word)).map((at) => stretch("常见密码", at, word.length, 7))),
    ...runs(lower),
    ...[...password.matchAll(/(.+?)\1{2,}/gu)].map((match) => stretch("重复字符", match.index, match[0].length, 6 + 5 * match[1].length)),
    ...[...password.matchAll(/(?:19|20)\d{2}(?:[01]\d[0-3]\d)?/g)].map((match) => stretch("年份或日期", match.index, match[0].length, match[0].length > 4 ? 15 : 7)),
  ];
  const chosen = [];
  for (const one of candidates.sort((left, right) => right.length - left.length)) {
    if (chosen.every((other) => one.at >= other.at + other.length || other.at >= one.at + one.length)) chosen.push(one);
  }
  return chosen;
}

function stretch(name, at, length, bits) {
  return { name, at, length, bits };
}

function places(text, word) {
  const at = text.indexOf(word);
  return at < 0 ? [] : [at];
}

/** Alphabet, digit and keyboard sequences of four or more, forwards or backwards. */
function runs(lower) {
  const lines = SEQUENCES.flatMap((line) => [line, [...line].reverse().join("")]);
  const found = [];
  for (let start = 0; start + 4 <= lower.length; start += 1) {
    let length = 4;
    if (!lines.some((line) => line.includes(lower.slice(start, start + 4)))) continue;
    while (start + length < lower.length && lines.some((line) => line.includes(lower.slice(start, start + length + 1)))) length += 1;
    found.push(stretch("键盘或字母顺序", start, length, 8 + Math.log2(length)));
  }
  return found;
}

function entropy(password, found) {
  const alphabet = CLASSES.filter(([pattern]) => pattern.test(password)).reduce((sum, [, size]) => sum + size, 0);
  const predictable = found.reduce((sum, { length }) => sum + length, 0);
  const free = Math.max(0, password.length - predictable);
  return free * Math.log2(Math.max(alphabet, 2)) + found.reduce((sum, one) => sum + Math.min(one.bits, one.length * Math.log2(Math.max(alphabet, 2))), 0);
}

function duration(seconds) {
  const units = [["年", 31557600], ["天", 86400], ["小时", 3600], ["分钟", 60], ["秒", 1]];
  const [name, size] = units.find(([, least]) => seconds >= least) ?? [];
  if (!name) return "不到一秒";
  const count = seconds / size;
  return count > 1e6 ? "一百万年以上" : `约 ${Math.round(count).toLocaleString("en-US")} ${name}`;
}

function advice(password, length, found, score) {
  const notes = [];
  if (length < 12) notes.push("至少使用 12 个字符，长度比符号种类更重要");
  if (found.length) notes.push("去掉可预测的部分，改用几个互不相关的词");
  if (/^\d+$/.test(password)) notes.push("不要只用数字");
  if (score < 3 && !notes.length) notes.push("再加长一些，或改用密码管理器生成的随机密码");
  return notes;
}

run(assess);
