# PyTorch execution traces.
"$T" import "$F/et_1.0.1.json" -o old.tape
"$T" export old.tape --to interchange
"$T" import "$F/et_1.1.1.json" -o new.tape --profile "$F/kineto.json"
"$T" export new.tape --to interchange
"$T" import "$F/et_1.1.1.json" -o kept.tape --keep-ids
"$T" import "$F/et_1.1.1.json" -o kept.tape --profile "$F/kineto.json" --json
"$T" import "$F/et_1.0.1.json" -o other.tape --profile "$F/kineto.json"
sed 's/"id": 16/"id": 15/' "$F/et_1.1.1.json" >twice.json
"$T" import twice.json -o bad.tape
echo "= $?"
"$T" import "$F/et_1.1.1.json" -o bad.tape --profile "$F/et_1.0.1.json" 2>&1 | sed "s|$F/||"
"$T" import "$F/four_layers.json" -o bad.tape --profile "$F/kineto.json" 2>&1 | sed "s|$F/||"
ls
