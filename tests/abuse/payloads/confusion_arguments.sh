# Arguments are data: nothing in them is run, expanded, split or taken for an option of the interpreter.
[ "$#" = 9 ] || echo "through: there are $# arguments"
[ "$1" = '$(touch /work/1)' ] && [ "$2" = '`touch /work/2`' ] && [ "$3" = '; touch /work/3' ] && [ "$4" = '-c' ] &&
  [ "$5" = "'quoted' \"twice\"" ] && [ "$6" = 'a
b' ] && [ "$7" = '' ] && [ "$8" = '*' ] && [ "$9" = '--version' ] || echo 'through: an argument was changed'
for number in 1 2 3; do [ -e "/work/$number" ] && echo 'through: an argument was run'; done
echo done
