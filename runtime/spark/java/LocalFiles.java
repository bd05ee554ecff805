package stateplan;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, except that the JVM sets permissions, where Hadoop starts the program chmod, and that a
 * start links the tables of a state store from the checkpoint, where Spark copies them. RocksDB writes no such file a
 * second time, and has checksums of its own in them. Tables are copied into the checkpoint, because Hadoop writes their
 * checksums then, by which a damaged file is found.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public void copyToLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
        if (deleteSource || !isLinked(source, target)) {
            super.copyToLocalFile(deleteSource, source, target);
        }
    }

    private boolean isLinked(Path source, Path target) {
        if (!source.getName().endsWith(".sst")) {
            return false;
        }
        java.nio.file.Path link = pathToFile(target).toPath();
        try {
            Files.createDirectories(link.getParent());
            // A copy to a file that is there would change all links of it.
            Files.deleteIfExists(link);
            Files.createLink(link, pathToFile(source).toPath());
            return true;
        } catch (IOException e) {
            // On another disk, for example.
        } catch (UnsupportedOperationException e) {
            // The file system has no links.
        }
        return false;
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            try {
                Files.setPosixFilePermissions(
                    pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            } catch (UnsupportedOperationException e) {
                super.setPermission(path, permission);
            }
        }
    }
}
