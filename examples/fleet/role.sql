-- The database, and a role with a schema of its own; its password is in a variable.
\getenv password WINDLASS_DATABASE_PASSWORD
CREATE DATABASE windlass;
\connect windlass
CREATE ROLE windlass LOGIN PASSWORD :'password';
CREATE SCHEMA windlass AUTHORIZATION windlass;
