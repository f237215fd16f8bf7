"""Small problems run on one thread, and the setting is restored."""

import pytest
import torch

from exhume.support.threads import threads_for


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("multiplications", "threads"), [(10**6, 1), (10**10, 2)])
def test_threads_follow_the_size_of_a_pass(two_threads, multiplications, threads):
    with threads_for(multiplications):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2


def test_setting_comes_back_after_an_error(two_threads):
    with pytest.raises(RuntimeError), threads_for(1):
        raise RuntimeError
    assert torch.get_num_threads() == 2
