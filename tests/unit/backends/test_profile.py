from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.profile import KernelTime, ProfiledBackend, StepProfile


def test_time_in_kernels_is_their_sum():
    profile = StepProfile(2, 1.0, (KernelTime("a", 4, 0.5), KernelTime("b", 1, 0.25)))
    assert profile.kernel_seconds == 0.75


def test_a_backend_has_a_profile_only_if_it_says_so():
    class Profiled(FakeBackend):
        def profile(self, run):
            run()
            return StepProfile(0, 0.0, ())

    assert isinstance(Profiled(5), ProfiledBackend)
    assert not isinstance(FakeBackend(5), ProfiledBackend)
