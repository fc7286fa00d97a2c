#!/usr/bin/env bash
# From an ONNX model to figures: is there an NPU, convert, validate, benchmark. Without a model it takes infer.py's.
#   bash examples/offline/deploy.sh [model.onnx] [--batch 1,4] [--out FOLDER] [atc's options, as --input_shape="x:-1,3,224,224"...]
# In a shell of CANN's, or in softcann's: bash examples/offline/run.sh deploy
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3} model='' batches='' out='' options=()
while (($#)); do
  case $1 in
    -h | --help) sed -n '2,4s/^# \?//p' "$0"; exit ;;
    --batch) batches=$2; shift ;;
    --out) out=$2; shift ;;
    -*) options+=("$1") ;;
    *) model=$1 ;;
  esac
  shift
done
if [[ -z $out ]]; then out=$(mktemp -d); trap 'rm -rf "$out"' EXIT; fi
mkdir -p "$out"

echo "== 1. the NPU"
npu-smi info
soc=$("$python" -c 'import acl; print(acl.get_soc_name())')   # what atc calls it; npu-smi's "Name" has no "Ascend" before it
echo "soc_version $soc"

echo "== 2. convert"
if [[ -z $model ]]; then
  "$python" "$here/infer.py" --batch 1 --keep "$out"
  model=$out/net.onnx
fi
om=$out/$(basename "${model%.onnx}")
convert=(atc); command -v atc > /dev/null || convert=("$python" -m softcann.atc)
# The whole of the output decides: atc prints why it failed on stdout, and its exit code says that it did.
"${convert[@]}" --model="$model" --framework=5 --output="$om" --soc_version="$soc" --precision_mode_v2=origin "${options[@]}"

echo "== 3. validate"
"$python" -m softcann validate --om "$om.om" --onnx "$model"

echo "== 4. benchmark"
"$python" -m softcann bench --model "$om.om" --loop 20 ${batches:+--batch "$batches"}
