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
