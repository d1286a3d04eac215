import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.util.Scheduler;

/**
 * What Kafka would do later, kept until it is asked for. A log leaves the removal of its `.deleted` files to the
 * scheduler; flushes and what is done again and again change no bytes and are forgotten.
 */
final class Tasks implements Scheduler {
    private final List<Runnable> waiting = new ArrayList<>();

    /** Run what is waiting, and not what that makes wait. */
    void run() {
        List<Runnable> now = new ArrayList<>(waiting);
        waiting.clear();
        now.forEach(Runnable::run);
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
        if (period <= 0 && !name.startsWith("flush")) {
            waiting.add(task);
        }
        return Done.INSTANCE; // a log cancels its futures when it is closed
    }

    @Override
    public void startup() {
    }

    @Override
    public void shutdown() {
    }

    @Override
    public void resizeThreadPool(int size) {
    }

    private static final class Done implements ScheduledFuture<Object> {
        static final Done INSTANCE = new Done();

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }

        @Override
        public boolean cancel(boolean interrupt) {
            return true;
        }

        @Override
        public boolean isCancelled() {
            return true;
        }

        @Override
        public boolean isDone() {
            return true;
        }

        @Override
        public Object get() {
            return null;
        }

        @Override
        public Object get(long timeout, TimeUnit unit) {
            return null;
        }
    }
}
