"""What every encoder offers: from a user's rows to numbers that a flow takes, and back."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Shaped

from diglm.data.facets import Facet

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    Rows = np.ndarray | IntoDataFrame | Sequence[Sequence[object]]
else:  # whatever arrives is told apart by encoders, whose errors say more
    Rows = object

Container = Any  # rows given back: of the library, and with the types, of those of fit


@dataclass(frozen=True)
class Encoded:
    """Rows as a model sees them.

    Attributes:
        values: numbers, (rows, *shape); NaN where a value is to be drawn.
        log_scale: log of the change of unit and of the rates of what is unseen, (rows,):
            log p_user = log p_encoded + log_scale.
        unseen: (rows, facts): which facts of a row no training row prepared for.
    """

    values: Shaped[np.ndarray, " rows *shape"]
    log_scale: Float[np.ndarray, " rows"]
    unseen: Bool[np.ndarray, "rows facts"]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.values)

    def take(self, rows: np.ndarray) -> "Encoded":
        """Some of the rows."""
        return Encoded(self.values[rows], self.log_scale[rows], self.unseen[rows])


class AbstractEncoder(ABC):
    """Fitted to training rows only; rows that come later, held-out ones too, meet it as new.

    Attributes:
        layout: "vector" or "image": what recipes build flows for.
        n_offsets: places in the cells of a row at which log p(x) is looked at.
        in_files: whether rows may lie in files of tables.
    """

    layout: ClassVar[str]
    n_offsets: ClassVar[int]
    in_files: ClassVar[bool] = False

    # ------------------------------------------------------------------ made

    @classmethod
    @abstractmethod
    def accepts(cls, X: Any) -> bool:
        """Whether rows given as `X` are of this kind."""

    @classmethod
    @abstractmethod
    def check(cls, X: Any) -> Any:
        """`X`, or a clear error for what is not rows of this kind."""

    @classmethod
    def joined(cls, X: Any, more: Any) -> Any:
        """Rows of `X` and of `more`, both checked, in the container of `X`."""
        frames = [nw.from_native(rows, eager_only=True, pass_through=True) for rows in (X, more)]
        if all(isinstance(frame, nw.DataFrame) for frame in frames):
            missing = [name for name in frames[0].columns if name not in frames[1].columns]
            if missing:
                raise ValueError(f"The rows to be added lack the column {missing[0]!r} of X.")
            return nw.concat([frames[0], frames[1].select(frames[0].columns)]).to_native()
        first, second = np.asarray(X), np.asarray(more)
        if first.shape[1:] != second.shape[1:]:
            raise ValueError(
                f"Rows of X have shape {first.shape[1:]}, but those to be added "
                f"{second.shape[1:]}; give rows of one kind."
            )
        return np.concatenate([first, second])

    @classmethod
    @abstractmethod
    def fit(cls, X: Any, y: Any = None, *, weights: Any = None) -> "AbstractEncoder":
        """Learn from the rows of positive weight; `y` are numbers that categories may follow."""

    @classmethod
    @abstractmethod
    def from_dict(cls, content: Any) -> "AbstractEncoder":
        """The encoder that `to_dict` described; ValueError if anything is out of place."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""

    # ------------------------------------------------------------------ used

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one encoded row."""

    @property
    def dim(self) -> int:
        """Numbers in an encoded row."""
        return int(np.prod(self.shape))

    @property
    @abstractmethod
    def n_features(self) -> int:
        """What the user counts in a row: columns, or pixels."""

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns; None where they have none."""
        return None

    @property
    @abstractmethod
    def widths(self) -> Float[np.ndarray, "..."]:
        """Width of a cell in encoded units, of the shape of a row; 0 where continuous."""

    @property
    def can_be_missing(self) -> Bool[np.ndarray, "..."]:
        """Which encoded numbers were missing in some training rows."""
        return np.zeros(self.shape, bool)

    @property
    def remarks(self) -> list[str]:
        """What a person should be told of the rows that were learned from."""
        return []

    @abstractmethod
    def encode(self, X: Any, *, owner: str = "The model", extra: str = "error") -> Encoded:
        """Numbers of rows; `owner` expects them, and `extra="ignore"` passes over other columns."""

    # ------------------------------------------------------------------ cell by cell

    @property
    def facets(self) -> tuple[Facet, ...]:
        """What a person can name in a row, and change; empty where an encoder does not say."""
        return ()

    def cells(
        self, X: Any, *, owner: str = "The model", extra: str = "error", absent: str = "error"
    ) -> Float[np.ndarray, "rows cells"]:
        """Rows as a person reads them: numbers as they are, codes of levels, NaN if missing.

        With `absent="draw"` parts that all rows lack are NaN too; see `lacking`.
        """
        raise ValueError(f"{type(self).__name__} does not say what parts its rows have.")

    def lacking(self, X: Any) -> Bool[np.ndarray, " cells"]:
        """Which cells no row of `X` has, because it was not given a place for them."""
        return np.zeros(self.n_features, bool)

    def encode_cells(
        self,
        cells: Float[np.ndarray, "rows cells"],
        absent: Bool[np.ndarray, " cells"] | None = None,
    ) -> Encoded:
        """Rows given as cells. What is `absent` was not asked for: it is drawn, not missing."""
        raise ValueError(f"{type(self).__name__} does not say what parts its rows have.")

    def decode_cells(self, cells: Float[np.ndarray, "rows cells"]) -> Container:
        """Cells in the container of the rows learned from."""
        raise ValueError(f"{type(self).__name__} does not say what parts its rows have.")

    # ------------------------------------------------------------------ back, and gaps

    @abstractmethod
    def decode(self, values: Any) -> Any:
        """Encoded rows in the container and units of the rows learned from."""

    def complete(
        self, values: Float[np.ndarray, "rows ..."], u: Float[np.ndarray, "rows ..."]
    ) -> tuple[Float[np.ndarray, "rows ..."], Float[np.ndarray, " rows"]]:
        """Values that training gave no place to, drawn given the others by uniforms; and log q.

        What may be missing, as in training, stays NaN: the model has learned to fill it.
        """
        return values, np.zeros(len(values))

    def told(self, values: Shaped[np.ndarray, "rows ..."]) -> Bool[np.ndarray, "rows ..."] | None:
        """Which numbers of encoded rows a person has told; None where it is all of them.

        Not what is missing, nor what says that it is.
        """
        return None

    def centred(self, values: Float[np.ndarray, "rows ..."]) -> Float[np.ndarray, "rows ..."]:
        """Values at the centres of the cells that they lie in."""
        return values

    def within_reach(self, values: Float[np.ndarray, "rows ..."]) -> Bool[np.ndarray, " rows"]:
        """Rows no number of which lies farther from those of fit than these lie apart."""
        return np.ones(len(values), bool)

    def slopes(self, wanted: Any) -> list[int]:
        """Places, in an encoded row, of the columns that are given slopes of their own."""
        raise ValueError(
            f"{type(self).__name__} has no columns that groups could have slopes of; use "
            "slopes=None."
        )

    def slope_units(self, places: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Location and scale of the columns at these places."""
        return np.zeros(len(places)), np.ones(len(places))
