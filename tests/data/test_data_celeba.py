"""`celeba:PATH?trait=…` on a small tree in the official layout, and on the real file of attributes where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_files import picture

from foible.data import load, open_data
from foible.data.celeba import _traits, traits_of
from foible.errors import UserError

TRAITS = ("Male", "Smiling", "Wearing_Necktie")
SAID = ((1, -1, -1), (-1, 1, -1), (1, 1, 1), (-1, -1, -1), (-1, 1, 1), (1, -1, 1))
PARTS = (0, 0, 0, 1, 2, 2)


def tree(root: Path, *, parts: bool = True, inner: str = "img_align_celeba") -> Path:
    (root / inner).mkdir(parents=True)
    names = [f"{number:06d}.jpg" for number in range(1, len(SAID) + 1)]
    for number, name in enumerate(names):
        (root / inner / name).write_bytes(picture((40 * number, 0, 0), size=(178, 218), kind="JPEG", quality=95))
    lines = ["202599", " ".join(TRAITS) + " "]  # the authors' lines end with a blank, and numbers stand in columns
    lines += [f"{name} " + " ".join(f"{value:2d}" for value in row) for name, row in zip(names, SAID, strict=True)]
    (root / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    if parts:
        said = "".join(f"{name} {part}\n" for name, part in zip(names, PARTS, strict=True))
        (root / "list_eval_partition.txt").write_text(said)
    return root


def test_a_trait_is_the_label_and_the_authors_parts_are_kept(tmp_path: Path) -> None:
    root = tree(tmp_path)
    train, test = (
        load(f"celeba:{root}?trait=Wearing_Necktie&size=8", split, quiet=True) for split in ("train", "test")
    )
    assert train.classes == test.classes == ("not Wearing Necktie", "Wearing Necktie")
    assert train.labels.tolist() == [0, 0, 1]
    assert test.labels.tolist() == [1, 1]  # those of part 1 are for validation, and in neither
    assert tuple(train.images.shape) == (3, 3, 8, 8)
    assert [int(image[0].float().mean() / 40 + 0.5) for image in test.images] == [4, 5]  # pixels stay with their row
    assert load(f"celeba:{root}?trait=Smiling", "test", quiet=True).labels.tolist() == [1, 0]
    assert open_data(f"celeba:{root}?trait=Smiling", "test").files[0] == "000005.jpg"


def test_one_folder_more_no_parts_and_a_pool(tmp_path: Path) -> None:
    root = tree(tmp_path, parts=False, inner="img_align_celeba/img_align_celeba")
    with pytest.raises(UserError, match="test="):
        load(f"celeba:{root}?trait=Male", "test", quiet=True)
    held = load(f"celeba:{root}?trait=Male&test=0.34&size=8", "test", quiet=True)
    assert held.labels.tolist() == [0, 1]
    pool = open_data(f"celeba:{root}", labelled=False)
    assert len(pool) == len(SAID)
    assert pool.classes == ()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    root = tree(tmp_path)
    with pytest.raises(UserError, match=r"no trait 'Smilling'; did you mean 'Smiling'\?.*Male, Smiling"):
        load(f"celeba:{root}?trait=Smilling", quiet=True)
    with pytest.raises(UserError, match="say which trait"):
        load(f"celeba:{root}", quiet=True)
    (root / "img_align_celeba" / "000002.jpg").unlink()
    assert open_data(f"celeba:{root}?trait=Male", quiet=True).problems == (
        "1 of 3 images that list_attr_celeba.txt names are not in img_align_celeba",
    )
    for number in (5, 6):
        (root / "img_align_celeba" / f"{number:06d}.jpg").unlink()
    with pytest.raises(UserError, match="none of the 2 images of the test split"):
        open_data(f"celeba:{root}?trait=Male", "test", quiet=True)
    (root / "list_attr_celeba.txt").write_text("1\nMale Smiling\n000001.jpg 1\n")
    with pytest.raises(UserError, match=r"line 3 .* expected a file and 2 numbers"):
        open_data(f"celeba:{root}?trait=Male")
    with pytest.raises(UserError, match=r"there is no .*list_attr_celeba\.txt"):
        open_data(f"celeba:{tmp_path / 'img_align_celeba'}?trait=Male")


def test_the_real_file_of_attributes(real_data: Path) -> None:
    path = real_data / "celeba" / "list_attr_celeba.txt"
    if not path.is_file():
        pytest.skip("there is no list_attr_celeba.txt")
    assert len(traits_of(path)) == 40
    names, labels, word = _traits("celeba:x", path, "Wearing Necktie")
    assert (names[0], word) == ("000001.jpg", "Wearing Necktie")
    assert set(labels.tolist()) == {0, 1}
    assert 0.05 < labels.mean() < 0.1  # 7 % of CelebA wear one
