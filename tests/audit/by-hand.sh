#!/usr/bin/env bash
# Checks a small journal of one segment with jq, sha256sum, xxd, gzip and openssl alone. No line of Tollgate runs here.
#
#   by-hand.sh              the example of audit/FORMAT.md, section 11
#   by-hand.sh DIR [VKEY]   a journal; the VKEY is the one that was written down when the log began
#
# Each step says what it does and prints one line. Numbers in brackets are sections of audit/FORMAT.md. It ends with
# `holds` and 0, or with `does not hold` and 1. It is slow and made to be read: audit by it once, then trust a verifier.
set -euo pipefail
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

check() { # what it says, then a command that is true if it holds
  local what=$1
  shift
  if "$@"; then echo "ok      $what"; else echo "FAILED  $what" && failed=1; fi
}

same() { [[ $1 == "$2" ]]; }

# The SHA-256, in hex, of what comes in.
sha() { local sum; read -r sum _ < <(sha256sum) && echo "$sum"; }

# The CRC-32, in hex, of what comes in: gzip puts it into its last eight bytes, the least significant byte first.
crc() { gzip -c | tail -c 8 | head -c 4 | xxd -p | sed 's/\(..\)\(..\)\(..\)\(..\)/\4\3\2\1/'; }

# ---------------------------------------------------------------- the example, written out as a journal

# The document's lines are indented by four. What a line's head must say about a text is its length and CRC [2].
framed() { printf '%08x %s ' "$(wc -c <"$1")" "$(crc <"$1")" && cat "$1" && echo; }

write_example() {
  local text=$work/example vkey prev
  sed -n '/^## 11\. /,$p' "$root/audit/FORMAT.md" >"$text"
  vkey=$(sed -n 's/^    vkey  *//p' "$text") prev=$(sed -n 's/^    prev(0)  *//p' "$text")
  dir=$work/journal given=$vkey
  mkdir "$dir"
  sed -nE 's/^    ([0-9a-f]{8} [0-9a-f]{8} \{.*)/\1/p' "$text" >"$dir/00000000.log"
  sed -nE 's/^    leaf\([0-9]+\)  *//p' "$text" | xxd -r -p >"$dir/00000000.leaves"
  sed '1,/^.*body of a line of/d; /^By hand/,$d' "$text" | sed 's/^    //; 1d' | sed '$d' >"$work/note"
  framed "$work/note" >"$dir/00000000.checkpoints"
  jq -cnj --arg vkey "$vkey" --arg prev "$prev" '{epoch:0,prev:$prev,seq:0,sig:"",vkey:$vkey}' >"$work/key"
  framed "$work/key" >"$dir/keys"
}

# ---------------------------------------------------------------- the key [6, 7]

read_key() {
  # The key's text is NAME+ID+BASE64, and the base64 is of a 1 (Ed25519) and the 32 bytes of the key.
  vkey=$(head -n 1 "$dir/keys" | tail -c +19 | jq -r .vkey)
  [[ -z $given ]] || check "the key is the one that was written down" same "$vkey" "$given"
  log=${vkey%%+*}
  local rest=${vkey#*+}
  base64 -d <<<"${rest#*+}" >"$work/key.raw"
  id=$({ printf '%s\n' "$log" && cat "$work/key.raw"; } | sha | cut -c1-8)
  check "the key's id ${rest%%+*} is the hash of its name and bytes" same "$id" "${rest%%+*}"
  # openssl wants the key with the twelve bytes in front that say "Ed25519 public key" (RFC 8410).
  { xxd -r -p <<<302a300506032b6570032100 && tail -c +2 "$work/key.raw"; } >"$work/key.der"
  prev=$(printf 'dev.tollgate/audit/genesis/v1\n%s\n%s\n' "$log" "$vkey" | sha)
}

# ---------------------------------------------------------------- the records [2, 3, 4]

# One line: its length, its CRC, that it is record `seq` of this log, and that it names the hash of the one before.
record() {
  local line=$1 body=${1:18}
  [[ ${line:0:18} == "$(printf '%08x ' ${#body})"* ]] &&
    [[ ${line:9:9} == "$(printf %s "$body" | crc) " ]] &&
    jq -e --argjson seq "$seq" --arg log "$log" --arg prev "$prev" \
      '(.seq | tonumber) == $seq and .log == $log and .prev == $prev' <<<"$body" >/dev/null 2>&1
}

read_records() {
  local line
  seq=0 leaves=()
  while IFS= read -r line || [[ -n $line ]]; do
    record "$line" || { check "record $seq" false; return; }
    # A leaf is the hash of a zero byte and the JSON as it is stored; the next record's `prev` is this hash.
    prev=$({ printf '\0' && printf %s "${line:18}"; } | sha)
    leaves+=("$prev")
    seq=$((seq + 1))
  done <"$dir/00000000.log"
  check "$seq records: length, CRC, order, and each names the hash of the one before" test "$seq" -gt 0
  printf '%s\n' "${leaves[@]}" >"$work/leaves"
  check "the leaf file holds the same hashes" same "$(xxd -p -c 32 "$dir/00000000.leaves")" "$(cat "$work/leaves")"
}

# ---------------------------------------------------------------- the tree [4] and the checkpoints [6]

# The root over the first $1 leaves: neighbours are hashed in pairs behind a 1, level by level; who has none goes up.
tree_root() {
  local level=("${leaves[@]:0:$1}") next i
  while ((${#level[@]} > 1)); do
    next=()
    for ((i = 0; i + 1 < ${#level[@]}; i += 2)); do
      next+=("$(xxd -r -p <<<"01${level[i]}${level[i + 1]}" | sha)")
    done
    ((i == ${#level[@]})) || next+=("${level[i]}")
    level=("${next[@]}")
  done
  echo "${level[0]}"
}

# A note is three lines (log, size, root), an empty one, and the signature behind a dash and the log's name.
checkpoint() {
  local note=$1 size stored signature
  size=$(sed -n 2p "$note") stored=$(sed -n 3p "$note" | base64 -d | xxd -p -c 32)
  signature=$(sed -n 5p "$note")
  head -n 3 "$note" >"$work/text"
  # The signature's first four bytes are the key's id, the other 64 are Ed25519's.
  base64 -d <<<"${signature##* }" >"$work/blob"
  tail -c +5 "$work/blob" >"$work/signature"
  check "checkpoint of $size: this log and this key" same \
    "$(head -n 1 "$note") ${signature% *} $(head -c 4 "$work/blob" | xxd -p)" "$log — $log $id"
  check "checkpoint of $size: the signature" openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key.der" \
    -rawin -in "$work/text" -sigfile "$work/signature" -out /dev/null
  if [[ $size =~ ^[1-9][0-9]{0,8}$ ]] && ((size <= ${#leaves[@]})); then
    check "checkpoint of $size: the root" same "$stored" "$(tree_root "$size")"
    sealed=$size
  else
    check "checkpoint of $size: the records that it covers are there" false
  fi
}

read_checkpoints() {
  local file=$dir/00000000.checkpoints at=0 length end stored
  sealed=0
  check "there are checkpoints" test -s "$file"
  [[ $failed == 0 ]] || return 0
  end=$(wc -c <"$file")
  # Notes have newlines, so that the lengths lead from one to the next: 18 bytes of head, the note, a newline.
  while ((at < end)); do
    length=$(tail -c +$((at + 1)) "$file" | head -c 8)
    [[ $length =~ ^[0-9a-f]{8}$ ]] || { check "the checkpoint at byte $at" false; return; }
    length=$((16#$length))
    tail -c +$((at + 19)) "$file" | head -c "$length" >"$work/note"
    stored=$(tail -c +$((at + 10)) "$file" | head -c 8)
    check "the checkpoint at byte $at: its CRC" same "$stored" "$(crc <"$work/note")"
    checkpoint "$work/note"
    at=$((at + 18 + length + 1))
  done
}

# ---------------------------------------------------------------- all of it

dir=${1:-} given=${2:-}
[[ -n $dir ]] || write_example
[[ ! -e $dir/00000001.log ]] || { echo "this is for journals of one segment" >&2; exit 2; }
read_key
read_records
[[ $failed == 0 ]] && read_checkpoints
if [[ $failed == 0 ]]; then
  check "the last checkpoint covers all $seq records" same "$sealed" "$seq"
fi
if [[ $failed == 0 ]]; then echo holds; else echo "does not hold" && exit 1; fi
