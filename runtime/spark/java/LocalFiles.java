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
 * start links the files of a state store from the checkpoint, where Spark copies them. RocksDB writes no such file a
 * second time, and has checksums of its own in them.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public void copyToLocalFile(boolean deleteSource, Path source, Path target) throws IOException {
        if (!deleteSource && source.getName().endsWith(".sst")) {
            try {
                Files.createLink(pathToFile(target).toPath(), pathToFile(source).toPath());
                return;
            } catch (IOException e) {
                // On another disk, for example: a copy.
            } catch (UnsupportedOperationException e) {
                // The file system has no links: a copy.
            }
        }
        super.copyToLocalFile(deleteSource, source, target);
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
