# Hands pip's configuration over to uv, which reads none of it. Sourced by setup.sh and bundle.sh, with $pip set to the
# command that runs pip.
said_to_pip() {
    $pip config list 2>/dev/null | sed -n "s/^[^.]*\.$1='\(.*\)'\$/\1/p" | sed 's/\\n/ /g' | tail -n 1
}
hand_over() {
    value=$(eval "echo \"\${$1:-}\"")
    [ -n "$value" ] || value=$(said_to_pip "$2")
    [ -z "$value" ] || export "$1=$value"
}
hand_over UV_DEFAULT_INDEX index-url
hand_over UV_INDEX extra-index-url
hand_over UV_FIND_LINKS find-links
hand_over UV_INSECURE_HOST trusted-host
hand_over SSL_CERT_FILE cert
[ -z "${UV_INDEX:-}" ] || export UV_INDEX_STRATEGY=unsafe-best-match # as pip sees several indexes; hashes decide
[ -z "${PIP_NO_CACHE_DIR:-}" ] || export UV_NO_CACHE=1
