# Sourced by scripts that install something: `use_environment requirements.txt` leaves in PYTHON an
# interpreter that has what the file lists. It takes the active virtual environment, else .venv,
# which it makes. Nothing is installed again while the requirements stay as they are.

fail() {
    echo "error: $*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "no Python 3.10 or newer among: ${PYTHON:-python3, python3.10 to python3.13, python}." \
        "Install one, or name it: PYTHON=/path/to/python3 bash $0"
}

use_environment() {
    local requirements=$1 base folder stamp wanted
    if [[ -n ${VIRTUAL_ENV:-} ]]; then
        folder=$VIRTUAL_ENV
    else
        folder=$PWD/.venv
        if ! "$folder/bin/python" -c 'import pip' 2>/dev/null; then
            base=$(find_python)
            echo "making a virtual environment in .venv ($("$base" --version))"
            "$base" -m venv --clear "$folder" ||
                fail "could not make $folder; on Debian and Ubuntu: apt-get install python3-venv"
        fi
    fi
    PYTHON=$folder/bin/python
    [[ -x $PYTHON ]] || fail "VIRTUAL_ENV is $folder, which has no bin/python"

    stamp=$folder/installed-$requirements
    wanted=$(cat requirements*.txt)
    if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
        echo "installing $requirements into $folder (the first time takes a minute or more)"
        "$PYTHON" -m pip install --quiet --disable-pip-version-check -r "$requirements" ||
            fail "pip could not install $requirements; its own message stands above"
        echo "$wanted" >"$stamp"
    fi
}
