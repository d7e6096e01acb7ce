# Groups log lines by their message with the changing parts masked. Variables: level, top, kept (file), name.
# Plain POSIX awk: mawk has no interval expressions and no gensub.

function level_of(line, low) {
  low = tolower(line)
  if (low ~ /(^|[^a-z_])(error|fatal|critical|severe|panic|emerg|alert)([^a-z_]|$)/) return "error"
  if (line ~ /^[A-Za-z_.]*(Error|Exception)(:|$)/) return "error"
  if (low ~ /(^|[^a-z_])(warn|warning)([^a-z_]|$)/) return "warning"
  return ""
}

function masked(line) {
  sub(/^[^A-Za-z]*[0-9][0-9]:[0-9][0-9](:[0-9][0-9])?([.,][0-9]+)?(Z|[+-][0-9:]+)?[^A-Za-z\200-\377"]*/, "", line)
  sub(/^[0-9]+-[0-9]+-[0-9]+T[0-9:.,]+(Z|[+-][0-9:]+)?[ \t]*/, "", line)
  sub(/^(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +[0-9]+ [0-9:]+ [^ ]+ /, "", line)
  gsub(/"[^"]*"/, "\"…\"", line)
  gsub(/'[^']*'/, "'…'", line)
  gsub(/0x[0-9a-fA-F]+/, "<hex>", line)
  gsub(/[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F]+/, "<uuid>", line)
  gsub(/[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+(:[0-9]+)?/, "<address>", line)
  gsub(/[0-9]+(\.[0-9]+)?/, "<n>", line)
  gsub(/[ \t]+/, " ", line)
  return substr(line, 1, 300)
}

BEGIN { printf "" > kept }

{
  sub(/\r$/, "")
  found = level_of($0)
  if (found == "") next
  totals[found]++
  if (level == "error" && found != "error") next
  print > kept
  key = found "\t" masked($0)
  if (!(key in count)) {
    order[++groups] = key
    first[key] = NR
    example[key] = substr($0, 1, 500)
  }
  count[key]++
  last[key] = NR
}

END {
  printf "%s: %d lines, %d errors, %d warnings, %d groups\n", name, NR, totals["error"], totals["warning"], groups
  for (shown = 1; shown <= groups && shown <= top; shown++) {
    best = ""
    for (place = 1; place <= groups; place++) {
      key = order[place]
      if (!(key in done) && (best == "" || count[key] > count[best])) best = key
    }
    done[best] = 1
    split(best, parts, "\t")
    printf "\n%d x %s (lines %d to %d)\n  %s\n  e.g. %s\n", count[best], parts[1], first[best], last[best], substr(best, length(parts[1]) + 2), example[best]
  }
  if (groups > top) printf "\n%d more groups; raise --top to see them\n", groups - top
}
