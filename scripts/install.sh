# Installs what a script needs: other scripts source this.

# As root, or with sudo; without either the package manager fails and says why.
as_root() {
    if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null; then
        sudo "$@"
    else
        "$@"
    fi
}

# By the first of these package managers that is there, the first of its packages that it can
# install: `install_one apt-get=redis-server dnf="redis valkey"`. Whether the program is there then,
# its caller has to see.
install_one() {
    local packages manager package
    for packages in "$@"; do
        manager=${packages%%=*}
        command -v "$manager" >/dev/null || continue
        for package in ${packages#*=}; do
            case $manager in
                apt-get)
                    export DEBIAN_FRONTEND=noninteractive
                    as_root apt-get update && as_root apt-get install -y --no-install-recommends "$package"
                    ;;
                dnf) as_root dnf install -y "$package" ;;
                apk) as_root apk add "$package" ;;
                brew) brew install "$package" ;;
            esac && break
        done
        break
    done || true
}
