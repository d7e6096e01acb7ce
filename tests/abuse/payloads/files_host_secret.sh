# The same with a shell's own means and with programs.
secret=$(sed 's/.*"secret": "\([^"]*\)".*/\1/')
read -r line <"$secret" && echo "$line" && echo 'through: read by the shell'
cat "$secret" && echo 'through: read by cat'
(cd "$(dirname "$secret")" && cat secret.txt) && echo 'through: read from its folder'
head -c 100 /skill/tests/abuse/payloads/way_out && echo 'through: read over a link of the skill'
ls "${secret%/*}"/* && echo 'through: listed'
echo done
