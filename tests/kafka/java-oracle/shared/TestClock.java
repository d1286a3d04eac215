import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/** The time that Kafka's classes see: it stands still until it is set. */
final class TestClock implements Time {
    private long now;

    TestClock(long now) {
        this.now = now;
    }

    void set(long milliseconds) {
        now = milliseconds;
    }

    @Override
    public long milliseconds() {
        return now;
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public void sleep(long milliseconds) {
        now += milliseconds;
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
        throw new UnsupportedOperationException("nothing waits here");
    }
}
