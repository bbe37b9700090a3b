"""How files are written: whole or not at all, with permissions kept and links followed."""

import os
import zipfile

import numpy as np
import pytest

from appgrad import CCA, load


@pytest.fixture
def model(rng):
    return CCA(2).fit(rng.standard_normal((50, 4)), rng.standard_normal((50, 3)))


@pytest.mark.parametrize("moment", ["write_array", "fsync", "replace"])
def test_a_failure_while_writing_leaves_the_old_file(model, tmp_path, monkeypatch, moment):
    path = tmp_path / "m.cca"
    model.save(path)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    module = {"write_array": np.lib.format, "fsync": os, "replace": os}[moment]
    monkeypatch.setattr(module, moment, fail)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.cca"]
    load(path)


def test_ctrl_c_in_the_middle_of_a_file_stays_ctrl_c(model, tmp_path, monkeypatch):
    """An archive with an open part would raise an error of its own when it is closed."""
    usual, kept = zipfile.ZipFile.open, []

    def interrupted(self, *args, **kwargs):
        kept.append(usual(self, *args, **kwargs))
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / "m.cca")
    assert not list(tmp_path.iterdir())


def test_permissions_are_ordinary(model, tmp_path):
    model.save(tmp_path / "m.cca")
    (tmp_path / "other").write_text("")
    assert (tmp_path / "m.cca").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_the_umask_of_the_process_is_never_changed(model, tmp_path, monkeypatch):
    """It belongs to all threads: files that others make meanwhile would have other permissions."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
    model.save(tmp_path / "m.cca")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(mode, model, tmp_path):
    path = tmp_path / "m.cca"
    path.write_text("old")
    path.chmod(mode)
    model.save(path)
    assert path.stat().st_mode & 0o777 == mode
    load(path)


def test_nobody_can_wait_at_the_temporary_name(model, tmp_path, monkeypatch):
    """Names differ from write to write, and a file that is there already is never opened."""
    opened, system = [], os.open

    def noted(path, flags, *args, **kwargs):
        opened.append((str(path), flags))
        return system(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", noted)
    for _ in range(3):
        model.save(tmp_path / "m.cca")
    made = [(path, flags) for path, flags in opened if ".appgrad-" in path]
    assert len({path for path, _ in made}) == 3
    assert all(flags & os.O_EXCL and flags & os.O_CREAT for _, flags in made)
    assert all(len(path.rsplit(".", 1)[1]) >= 16 for path, _ in made)
    assert [p.name for p in tmp_path.iterdir()] == ["m.cca"]


def test_a_name_of_many_bytes(model, tmp_path):
    """80 characters of three bytes: with anything added, more than file systems take."""
    path = tmp_path / ("\u76f8" * 80 + ".cca")
    model.save(path)
    assert load(path).n_components == 2
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_long_names_and_links_of_links(model, tmp_path):
    model.save(tmp_path / ("m" * 250 + ".cca"))
    folder = tmp_path / "there"
    folder.mkdir()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("there/real.cca")
    model.save(tmp_path / "one")
    assert (tmp_path / "one").is_symlink()
    assert (tmp_path / "two").is_symlink()
    assert [p.name for p in folder.iterdir()] == ["real.cca"]
    np.testing.assert_array_equal(load(tmp_path / "one").x_weights_, model.x_weights_)


def test_links_are_followed_and_other_things_left_alone(model, tmp_path):
    (tmp_path / "link.cca").symlink_to(tmp_path / "real.cca")
    model.save(tmp_path / "link.cca")
    assert (tmp_path / "link.cca").is_symlink()
    load(tmp_path / "real.cca")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not an ordinary file"):
        model.save(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        model.save(tmp_path / "no" / "m.cca")
