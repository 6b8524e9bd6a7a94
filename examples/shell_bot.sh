#!/bin/sh
set -eu
api="$OPILIO_SERVER/api/crawl"

call() { # call ENDPOINT BODY
  curl --silent --show-error --retry 5 --retry-connrefused --max-time 60 \
    --header "Authorization: Bearer $OPILIO_BOT_TOKEN" --header "Content-Type: application/json" \
    --data "$2" "$api/$1/"
}
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

while :; do
  answer=$(call pull "{\"bot_id\":\"$OPILIO_BOT_ID\",\"max_jobs\":1}")
  job=$(echo "$answer" | field job_id)
  [ -n "$job" ] || break
  token=$(echo "$answer" | field lock_token)
  url=$(echo "$answer" | field url)
  id="\"bot_id\":\"$OPILIO_BOT_ID\",\"job_id\":\"$job\",\"lock_token\":\"$token\""

  status=$(curl --silent --location --max-time 20 --output page.html --write-out '%{http_code}' "$url") || status=000
  case $status in
    2*)
      title=$(sed -n 's/.*<title>\([^<"\\]*\)<\/title>.*/\1/p' page.html | head -n 1)
      call submit "{$id,\"success\":true,\"data\":{\"title\":\"$title\"}}" ;;
    404) call submit "{$id,\"success\":false,\"error_code\":\"CONTENT_NOT_FOUND\",\"error_msg\":\"404\"}" ;;
    429 | 503) call submit "{$id,\"success\":false,\"error_code\":\"RATE_LIMITED\",\"retry_after\":60}" ;;
    *) call submit "{$id,\"success\":false,\"error_code\":\"NETWORK_ERROR\",\"error_msg\":\"status $status\"}" ;;
  esac
  echo
done
