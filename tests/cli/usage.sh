# One clear line on stderr and exit code 2 for wrong arguments.
show() {
  echo "\$ tapedeck $*"
  "$T" "$@"
  echo "= $?"
}
show --version
show frobnicate
show plan
show plan nowhere.tape --budget 1GiB
show info --frob x
show plan x --budget
show export x --to png
show import in.json
show view x
"$T" import "$F/four_layers.json" -o step.tape
show plan step.tape
show plan step.tape --budget 1.5parsecs
show plan step.tape --budget 120%
show plan step.tape --budget 60% --d2h -3
show plan step.tape --budget 60% --planner best
show info step.tape --trace 2
show info step.tape --trace x
show simulate step.tape
show simulate step.tape --schedule 7
show replay step.tape
