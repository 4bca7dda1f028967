# Sharding plans through every action.
cat >live.json <<'PLAN'
{"modules": {"attention": {"params": {"q": {"tp": {"type": "Shard", "dim": 0, "uneven_shard": false}}, "n": {"tp": {"type": "Replicate"}}}},
 "mlp": {"params": {"up": {"tp": {"type": "StridedShard", "dim": 0, "split_factor": 2, "uneven_shard": true}}}}},
 "classes": {"attention": "Attention", "mlp": "MLP"}, "mesh_dim_names": ["tp"]}
PLAN
show() {
  echo "\$ tapedeck sharding $*"
  "$T" sharding "$@"
  code=$?
  [ $code = 0 ] || echo "= $code"
}
show freeze live.json
"$T" sharding freeze live.json >frozen.json
"$T" sharding thaw frozen.json >again.json && "$T" sharding freeze again.json | cmp - frozen.json
show show live.json
sed -e 's/S(0)/S(1)/' -e 's/"n":/"m":/' frozen.json >other.json
show diff frozen.json live.json
show diff frozen.json other.json
"$T" import "$F/four_layers.json" -o step.tape >/dev/null
show show step.tape
show attach step.tape live.json
show attach step.tape other.json
show diff step.tape frozen.json
"$T" verify step.tape
"$T" sql step.tape "SELECT key FROM meta"
show thaw live.json
show freeze frozen.json
show freeze nowhere.json
show freeze
show paint frozen.json
show diff frozen.json
sed 's/SS(-1,2)/SS(-1)/' frozen.json >bad.json
show show bad.json
# In a job: where the tape was recorded, and what may be replayed.
"$T" plan step.tape --budget 100% >/dev/null
show attach step.tape frozen.json --rank 1 --world-size 4 --mesh-shape 4 --mesh-coords 1
show attach step.tape frozen.json --mesh-shape 4 --mesh-coords 4
show attach step.tape frozen.json --mesh-shape 2,2
show attach step.tape frozen.json --mesh-shape 2,2 --mesh-coords 1
show attach step.tape frozen.json --mesh-shape 2,
show attach step.tape frozen.json --rank 1
"$T" info step.tape | head -3
"$T" info step.tape --json | sed -n '/"digest"/,$p'
refuse() {
  echo "\$ tapedeck replay $*"
  "$T" replay "$@" --json 2>refused | grep '"ok"'
  cat refused
}
refuse step.tape --sharding live.json --mesh-coords 1
refuse step.tape --sharding other.json
refuse step.tape --mesh-coords 2
refuse step.tape --mesh-coords x
refuse step.tape --sharding nowhere.json
sed 's/"tp": {"type": "Rep/"ep": {"type": "Rep/' live.json >remark.json
"$T" sharding show remark.json | tail -3
"$T" sql step.tape "UPDATE meta SET value = 3" 2>/dev/null
printf '{"modules": {}}\0' >nul.json
show show nul.json
