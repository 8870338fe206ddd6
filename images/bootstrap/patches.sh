# shellcheck shell=bash
# Scripts of the owner's that change the installed engine. One without a sha256 is never run: whoever can write to its
# repository could run anything here.

phase_patches() {
  local row sha repo file target
  mkdir -p "$POD_HOME/patches"
  for row in "${SCRIPT_PATCHES[@]}"; do
    IFS='|' read -r sha repo file <<<"$row"
    target="$POD_HOME/patches/$file"
    [ -n "$sha" ] || fatal "the engine patch $repo/$file has no sha256, so it is not run, and the model does not load without it" "add its sha256 to the model spec and publish again"
    hub_download "$repo" "$file" "$target" || fatal "the engine patch $repo/$file cannot be fetched" "check the repository; a private one needs the secret HF_TOKEN"
    [ "$(sha256_of "$target")" = "$sha" ] || fatal "the engine patch $repo/$file is not the one that was reviewed" "read the new file, then put its sha256 into the model spec"
    "$PYTHON" "$target" 2>&1 | prefixed "$file" || fatal "the engine patch $file failed" "read the lines above: it may not fit engine $ENGINE_REQUIREMENT"
  done
}
