import java.util.Objects;

final class Expect {
    private Expect() {}

    static void equal(String what, Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) {
            throw new AssertionError(what + ": got " + got + ", wanted " + wanted);
        }
    }

    /** What a wait with a deadline gave: null if nothing came. */
    static <T> T inTime(String what, T got) {
        if (got == null) {
            throw new AssertionError("did not come in time: " + what);
        }
        return got;
    }
}
