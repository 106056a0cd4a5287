import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Statement;
import java.util.Properties;

/** What a Java program does with the driver of PostgreSQL: look around, ask, ask with parameters, be refused. */
public class Asked {
    public static void main(String[] words) throws SQLException {
        Properties login = new Properties();
        login.setProperty("user", words[1]);
        login.setProperty("password", words[2]);
        login.setProperty("options", "-c deniable.epsilon=0.5");
        try (Connection connection = DriverManager.getConnection(words[0], login)) {
            describe(connection.getMetaData());
            ask(connection);
            askWithParameters(connection);
            beRefused(connection);
        }
    }

    static void describe(DatabaseMetaData data) throws SQLException {
        System.out.println("product " + data.getDatabaseProductName());
        try (ResultSet tables = data.getTables(null, "public", "%", new String[] {"TABLE"})) {
            while (tables.next()) System.out.println("table " + tables.getString("TABLE_NAME"));
        }
        try (ResultSet columns = data.getColumns(null, "public", "visits", "%")) {
            while (columns.next())
                System.out.println("column " + columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME"));
        }
        count("primary", data.getPrimaryKeys(null, "public", "visits"));
        count("imported", data.getImportedKeys(null, "public", "visits"));
        count("exported", data.getExportedKeys(null, "public", "visits"));
        count("index", data.getIndexInfo(null, "public", "visits", false, true));
        count("unique", data.getBestRowIdentifier(null, "public", "visits", DatabaseMetaData.bestRowSession, true));
        count("versions", data.getVersionColumns(null, "public", "visits"));
        count("procedures", data.getProcedures(null, "public", "%"));
        count("functions", data.getFunctions(null, "public", "%"));
        count("udts", data.getUDTs(null, "public", "%", null));
        count("privileges", data.getTablePrivileges(null, "public", "visits"));
        count("schemas", data.getSchemas());
        count("catalogs", data.getCatalogs());
        count("types", data.getTypeInfo());
        count("kinds", data.getTableTypes());
        System.out.println("keywords " + data.getSQLKeywords());
    }

    static void count(String what, ResultSet rows) throws SQLException {
        int count = 0;
        while (rows.next()) count++;
        rows.close();
        System.out.println("count " + what + " " + count);
    }

    static void ask(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex")) {
            ResultSetMetaData shape = rows.getMetaData();
            System.out.println("shape " + shape.getColumnTypeName(1) + " " + shape.getColumnTypeName(2));
            while (rows.next()) System.out.println("row " + rows.getString("sex") + " " + rows.getLong("n"));
            for (SQLWarning said = statement.getWarnings(); said != null; said = said.getNextWarning())
                System.out.println("notice " + said.getMessage());
        }
    }

    /** Six times: from the fifth on the driver prepares on the server and reads binary values. */
    static void askWithParameters(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        String query = "SELECT COUNT(*) AS n, AVG(cost) AS mean FROM visits WHERE age >= ? AND sex = ? AND admitted >= ?";
        try (PreparedStatement statement = connection.prepareStatement(query)) {
            for (int turn = 0; turn < 6; turn++) {
                statement.setInt(1, 40);
                statement.setString(2, "F");
                statement.setDate(3, Date.valueOf("2000-01-01"));
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    System.out.println("turn " + rows.getLong(1) + " " + rows.getDouble(2));
                }
            }
        }
        connection.rollback();
        connection.setAutoCommit(true);
    }

    static void beRefused(Connection connection) throws SQLException {
        for (String text : new String[] {"SELECT * FROM visits", "DELETE FROM visits", "SELECT COUNT(*) FROM nothing"}) {
            try (Statement statement = connection.createStatement()) {
                statement.execute(text);
                System.out.println("done " + text);
            } catch (SQLException error) {
                System.out.println("refused " + error.getSQLState() + " " + error.getMessage().split("\n")[0]);
            }
        }
    }
}
