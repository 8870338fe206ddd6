# shellcheck shell=bash
# Room for the weights. A disk that fills up during a download fails an hour in, with an error about something else.

phase_disk() {
  local folder=$HF_CACHE free_kb cached_kb=0 line
  while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
  line=$(df -Pk "$folder" | tail -n 1)
  read -r _ _ _ free_kb _ <<<"$line"
  if [ -d "$HF_CACHE" ]; then
    line=$(du -sk "$HF_CACHE")
    cached_kb=${line%%[!0-9]*}
  fi
  local free_gb=$((free_kb * 1024 / 1000000000)) cached_gb=$((cached_kb * 1024 / 1000000000))
  log "disk: $free_gb GB free below $folder, $cached_gb GB cached there, $DOWNLOAD_GB GB to download, $NEEDED_GB GB planned"
  if ((free_gb + cached_gb < DOWNLOAD_GB)); then
    fatal "the checkpoint takes $DOWNLOAD_GB GB and $folder has $free_gb GB free ($cached_gb GB of the cache is there already)" \
      "start a new pod with a container disk of at least $DISK_GB GB, or mount a volume at $folder"
  fi
  ((free_gb + cached_gb >= NEEDED_GB)) || warn "less free disk than the plan asks for ($NEEDED_GB GB): compile caches and logs may fill it"
}
