# shellcheck shell=bash
# The checkpoint: what must be in the cache before the engine may go offline, and repairs of the checkpoint's own files.

phase_model() {
  local row repo revision
  for row in "${PREFETCH[@]}"; do
    IFS='|' read -r repo revision <<<"$row"
    [ "$(hub state "$repo" "$revision")" = cached ] && continue
    log "fetching $repo"
    hub fetch "$repo" "$revision" 2>&1 | prefixed hub || fatal "$repo cannot be fetched, and the engine cannot start without it" "check the name; a gated repository needs an accepted licence and the secret HF_TOKEN"
  done
  for row in "${CONFIG_PATCHES[@]}"; do
    hub patch "$row" 2>&1 | prefixed patch || fatal "the checkpoint's configuration cannot be repaired" "read the lines above"
  done
  decide_offline
}

hub() { tool hub --hub "$HF_CACHE/hub" "$@"; }

# Offline only when every repository that the engine will open is whole: a missing draft fails as an invalid repository id.
decide_offline() {
  local row repo revision state
  case ${VL_HFOFFLINE:-auto} in
    on)
      host_env HF_HUB_OFFLINE 1
      log "the Hub is not asked: VL_HFOFFLINE=on"
      return 0
      ;;
    off) return 0 ;;
  esac
  for row in "${REPOS[@]}"; do
    IFS='|' read -r repo revision <<<"$row"
    state=$(hub state "$repo" "$revision")
    if [ "$state" != cached ]; then
      log "the Hub is asked: $repo is $state"
      return 0
    fi
  done
  host_env HF_HUB_OFFLINE 1
  log "the Hub is not asked: all of ${#REPOS[@]} repositories are cached"
}
