# Devices: listed, replayed on, and refused. The cuda device is a double here, unless the machine has a real one.
"$T" devices --json | grep -e '"name"' -e usable -e why
"$T" import "$F/four_layers.json" -o step.tape >/dev/null && "$T" plan step.tape --budget 60% >/dev/null
for device in host opencl cuda; do
  "$T" replay step.tape --device $device --steps 3 --report --json | grep -e ok -e '"device"' -e checked -e wrong -e peak
done
"$T" sql step.tape "SELECT id, trace, schedule, device, ops, peak_bytes, d2h_bytes, h2d_bytes, demand_faults FROM run"
"$T" verify step.tape && echo "= sound"
"$T" merge step.tape again.tape -o both.tape 2>/dev/null
cp step.tape again.tape && "$T" merge step.tape again.tape -o both.tape && "$T" sql both.tape "SELECT id, trace, schedule, device FROM run"
"$T" verify both.tape && echo "= sound"
echo
"$T" replay step.tape --device gpu
echo "= $?"
"$T" replay step.tape --device cuda:7 2>&1 | sed 's/it has .*/it has N/'
"$T" replay step.tape --device opencl:99 2>&1 | sed 's/found .*/found N/'
"$T" replay step.tape --capacity 1MiB
echo "= $?"
"$T" replay step.tape --time-scale fast
"$T" replay step.tape --steps 0
"$T" devices host
echo
# A driver that is not there.
mkdir empty && printf 'not a library' >empty/libcuda.so.1
LD_LIBRARY_PATH=$PWD/empty "$T" replay step.tape --device cuda 2>&1 | sed 's/ (.*//'
