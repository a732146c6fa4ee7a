"""Names in figures are shown as they are written."""

from foible.figures import new, save


def test_dollar_signs_are_no_formula_and_powers_of_ten_still_are(tmp_path):
    figure, axes = new(1, 2)
    name = r"x$\frac$"  # as a formula this is an error
    axes[0, 0].set_title(name)
    axes[0, 0].set_xticks([0, 1], [name, "y"])
    axes[0, 0].plot([0, 1], [0, 1], label=name)
    axes[0, 0].legend()
    axes[0, 1].loglog([1, 1e6], [1, 1e6])
    assert save(figure, tmp_path, "f") == "f"
    assert (tmp_path / "f.png").stat().st_size > 1000
    assert axes[0, 1].xaxis.get_ticklabels()[0].get_parse_math()
    assert not axes[0, 0].xaxis.get_ticklabels()[0].get_parse_math()
