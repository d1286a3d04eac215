import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.stream.Stream;

/** Copies of partition directories, which hold plain files only. */
final class Directories {
    private Directories() {
    }

    static void copy(File from, File to) throws IOException {
        remove(to);
        Files.createDirectories(to.toPath());
        for (Path file : list(from)) {
            Files.copy(file, to.toPath().resolve(file.getFileName()), StandardCopyOption.COPY_ATTRIBUTES);
        }
    }

    static void remove(File directory) throws IOException {
        if (directory.isDirectory()) {
            for (Path file : list(directory)) {
                Files.delete(file);
            }
            Files.delete(directory.toPath());
        }
    }

    static List<Path> list(File directory) throws IOException {
        try (Stream<Path> files = Files.list(directory.toPath())) {
            return files.sorted().toList();
        }
    }
}
