"""The table of tokens, on every store."""

from batchline import Store
from batchline.stores.token_rows import TokenRow
from tests.doubles import new_id

FULL = TokenRow("", "Møller's robot 🤖 ", "ab" * 32, "günther ", ("c*", "d "), ("t*", "a/[bc]?"), True, 1, 2, None)
BARE = TokenRow("", "", "00" * 32, None, (), ("*",), False, 1_800_000_000_000, None, None)


def add(store: Store, row: TokenRow) -> TokenRow:
    mine = row._replace(id=new_id())
    store.transact(lambda rows: rows.insert_token(mine))
    return mine


def test_a_token_comes_back_as_it_was(store: Store) -> None:
    for row in (add(store, FULL), add(store, BARE)):
        found = store.read(lambda rows, id=row.id: rows.token(id))  # type: ignore[misc]
        assert found == row
        assert type(found.admin) is bool


def test_a_token_that_is_not_there_is_none(store: Store) -> None:
    mine = add(store, BARE)
    for id in (new_id(), "", mine.id + " ", mine.id.upper()):
        assert store.read(lambda rows, id=id: rows.token(id)) is None  # type: ignore[misc]


def test_a_token_of_the_same_id_stays_as_it_is(store: Store) -> None:
    mine = add(store, BARE)
    store.transact(lambda rows: rows.insert_token(FULL._replace(id=mine.id)))
    assert store.read(lambda rows: rows.token(mine.id)) == mine


def test_all_are_listed_the_oldest_first_and_there_is_any_only_then(fresh_store: Store) -> None:
    assert fresh_store.read(lambda rows: (rows.any_token(), rows.tokens())) == (False, [])
    late = add(fresh_store, BARE._replace(created_ms=9))
    early = add(fresh_store, FULL._replace(created_ms=8, revoked_ms=8))
    assert fresh_store.read(lambda rows: (rows.any_token(), rows.tokens())) == (True, [early, late])


def test_a_token_is_revoked_once(store: Store) -> None:
    mine, other = add(store, FULL), add(store, FULL)
    store.transact(lambda rows: rows.revoke_token(mine.id, 5))
    store.transact(lambda rows: rows.revoke_token(mine.id, 7))
    store.transact(lambda rows: rows.revoke_token(new_id(), 7))
    assert store.read(lambda rows: rows.token(mine.id)) == mine._replace(revoked_ms=5)
    assert store.read(lambda rows: rows.token(other.id)) == other
