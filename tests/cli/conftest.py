import sys

import numpy as np
import pytest

from appgrad.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """The command in this process: what it prints, after checking its exit code."""

    def command(*args, code=0, cwd="."):
        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["appgrad", *map(str, args)])
            with pytest.raises(SystemExit) as exit_:
                main()
        out, err = capsys.readouterr()
        assert (exit_.value.code or 0) == code, out + err
        return out if code == 0 else err

    return command


@pytest.fixture
def folder(rng, tmp_path):
    X = rng.standard_normal((400, 5))
    Y = X[:, :3] + rng.standard_normal((400, 3))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    lines = [",".join(f"n{j}" for j in range(5)), *(",".join(map(str, row)) for row in X)]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    return tmp_path
