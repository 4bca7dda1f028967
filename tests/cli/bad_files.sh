# Files that are missing, cut off, of another kind; nothing half written is left.
show() {
  { echo "\$ tapedeck $*"; "$T" "$@" 2>&1; } | sed "s,$F,FIXTURES,"
}
"$T" import "$F/four_layers.json" -o step.tape
show info nowhere.tape
echo "not a tape" >text.tape
show info text.tape
: >empty.tape
show info empty.tape
head -c 5000 step.tape >cut.tape
show info cut.tape
show verify cut.tape
show verify nowhere.tape
head -c 700 "$F/four_layers.json" >cut.json
show import cut.json -o cut2.tape
sed 's/"2": 4096, //' "$F/four_layers.json" >unknown.json
show import unknown.json -o unknown.tape
sed 's/50000/18446744073709551616/' "$F/four_layers.json" >large.json
show import large.json -o large.tape
show import nowhere.json -o x.tape
show import "$F/four_layers.json" -o nowhere/x.tape
show export step.tape --to interchange -o nowhere/x.json
show import "$F/four_layers.json" -o .
"$T" export step.tape --to interchange >/dev/full
echo "= $?"
ls
