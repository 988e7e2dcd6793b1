//! Makes a provider's models from the catalog, our rows and the configuration.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use windlass_core::config::{Config, Environment, Warning};
use windlass_protocol::opencode::config::{AuthEntry, ModelConfig, ModelLimit, ProviderConfig};

use super::{
    ProviderEntry,
    defaults::{self, Subject},
    dialect::{self, Dialect},
    own_server,
    packages::{self, Package},
    plans::{self, Plan},
    rank,
    rows::{self, Row},
    served::{self, Served},
    table::{Listed, ReasoningOption, Table},
    warning,
};
use crate::{
    Exchange, Model, Secret, Timeouts, Wire,
    auth::Credentials,
    aws::Account,
    bedrock,
    http::{fetch::Fetch, placeholder},
    login::rows as logins,
    plugin_options::PluginOptions,
    unusable::Lack,
};

mod address;
pub(super) mod describe;
mod exchange;
mod foreign;
mod stated;

pub(super) use stated::Stated;

/// A provider as far as it is known without the configuration.
pub(super) struct Known<'a> {
    pub id: &'a str,
    pub listed: Option<&'a Listed>,
    pub table: &'a Table,
    /// Options that a plugin sets for it.
    pub options: Option<&'a PluginOptions>,
}

/// A provider's properties that its models share.
struct Base<'a> {
    id: &'a str,
    name: String,
    npm: &'a str,
    row: Option<&'static Row>,
    environment: &'a Environment,
    /// The URL of the configuration, which overrides every model's own.
    configured_url: Option<String>,
    /// The URL of the provider, which a model's own overrides.
    provider_url: Option<String>,
    /// The vendor's URL, with `${NAME}` for variables.
    vendor_url: Option<&'a str>,
    api_key: Option<Secret>,
    key_variable: Option<Arc<str>>,
    aws: Option<Arc<Account>>,
    /// The way to tokens of a cloud that is used instead of a key.
    cloud: Option<Exchange>,
    /// Parts of the address that are stored with the key.
    stored: BTreeMap<String, String>,
    /// The login that is used instead of a key.
    login: Option<Login>,
    headers: Vec<(String, String)>,
    fetch: Option<Fetch>,
    set_cache_key: Option<bool>,
    is_litellm: bool,
    timeouts: Timeouts,
    /// The address is one that only the project names.
    is_foreign: bool,
}

/// The credentials that were found for a provider.
struct Found {
    api_key: Option<Secret>,
    login: Option<Login>,
    aws: Option<Arc<Account>>,
    cloud: Option<Exchange>,
}

impl Found {
    fn is_some(&self) -> bool {
        self.api_key.is_some() || self.login.is_some() || self.aws.is_some() || self.cloud.is_some()
    }
}

/// A login that was found.
struct Login {
    plan: Option<&'static Plan>,
    /// The host of an instance of one's own.
    instance: Option<String>,
}

/// A model that a provider offers.
#[derive(Default)]
struct Offered {
    config: ModelConfig,
    reasoning: Option<Vec<ReasoningOption>>,
    /// The path that serves it, where the provider says so.
    endpoint: Option<String>,
}

pub(super) fn provider(
    known: &Known<'_>,
    config: &Config,
    credentials: &Credentials,
    warnings: &mut Vec<Warning>,
) -> Result<ProviderEntry, Lack> {
    let environment = &config.environment;
    let Some(address) = foreign::address(known, config) else {
        return entry(
            known,
            config,
            &foreign::Access { environment, credentials, is_foreign: false },
            warnings,
        );
    };
    let (environment, nothing) = (&Environment::default(), &Credentials::default());
    let Known { id, listed, table, options: _ } = *known;
    let without_plugin = Known { id, listed, table, options: None };
    let access = foreign::Access { environment, credentials: nothing, is_foreign: true };
    let entry = entry(&without_plugin, config, &access, warnings);
    warnings.extend(foreign::missed(known, config, credentials, address));
    entry
}

fn entry(
    known: &Known<'_>,
    config: &Config,
    access: &foreign::Access<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<ProviderEntry, Lack> {
    let (id, foreign::Access { environment, credentials, is_foreign }) = (known.id, *access);
    let unconfigured = ProviderConfig::default();
    let configured = config.providers.get(id);
    let provider_config = configured.unwrap_or(&unconfigured);
    let source = format!("provider.{id}");
    let own_server = own_server(environment).filter(|_| id == "openai");
    let variables = key_variables(id, known.listed, provider_config);
    let of_plugin = known.options;
    let found = find_credentials(known, config, provider_config, access, &variables);
    let has_credential = found.is_some() || of_plugin.is_some();
    // Most providers end here: without a configuration nothing more of them is read.
    if configured.is_none() && known.listed.is_some() && own_server.is_none() && !has_credential {
        return Err(lacking_key(known.id, variables, environment));
    }
    let key_variable = variables.first().filter(|_| !is_foreign).map(|name| Arc::from(name.as_str()));
    let stored = address::stored(credentials.get(id));
    let stated = Stated::of(config, id, &unconfigured);
    let base_of = base(known, &Stated { environment, ..stated });
    let Found { api_key, login, aws, cloud } = found;
    let mut base = Base { api_key, key_variable, aws, cloud, stored, is_foreign, ..base_of };
    if let Some(login) = login {
        base.log_in(login);
    }
    base.set(of_plugin);

    // Models that need a key of the vendor are not listed without one; a server of one's own may need no key.
    let is_at_vendor = base.configured_url.is_none()
        && base.provider_url.is_none()
        && (known.listed.is_some() || packages::find(base.npm).is_some_and(|package| package.url.is_some()));
    let is_loopback = |url: &str| url.contains("//localhost") || url.contains("//127.0.0.1");
    let is_local = base.vendor_url.is_some_and(is_loopback);
    let is_free = is_at_vendor && !has_credential && id.starts_with("opencode") && configured.is_some();
    if is_free {
        // Free models are served without an account.
        base.api_key = Some(Secret("public".to_owned()));
    } else if is_at_vendor && !has_credential && !(is_local && configured.is_some()) {
        if configured.is_some() {
            let variable = variables.first().map(|name| format!("set {name}, ")).unwrap_or_default();
            let message = format!("has no key: {variable}log in, or set options.apiKey");
            warnings.push(warning(&source, message));
        }
        return Err(lacking_key(known.id, variables, environment));
    }

    let unlisted = model(&base, "", &Offered::default());
    // A server without configured models is asked for them, as is one with models that depend on the account.
    let is_ours = known.listed.is_none() && !is_at_vendor || is_local;
    let is_asked = configured.is_some() && is_ours && provider_config.models.is_empty()
        || base.login.as_ref().and_then(|login| login.plan).is_some_and(|plan| plan.lists_models);
    let served = unlisted.as_ref().ok().filter(|_| is_asked);
    let served = served.and_then(|model| served::kept(&config.paths, &model.base_url));
    let (mut models, barred) = offered_models(known, &stated, own_server.is_some(), is_free, served);
    if let Some(plan) = base.login.as_ref().and_then(|login| login.plan) {
        models.retain(|id, _| (plan.serves)(id) || provider_config.models.contains_key(id));
    }
    // A server behind the variable takes any name, so an empty list of models is no fault there.
    if models.is_empty() && own_server.is_none() {
        warnings.push(warning(&source, "has no models: list them under `models`".to_owned()));
    }
    let (made, lack) = make_models(&base, &models, configured.is_some(), warnings);
    if made.is_empty()
        && let Some(lack) = lack.or_else(|| unlisted.as_ref().err().cloned())
    {
        return Err(lack);
    }
    // An unknown model is sent the temperature that the user set.
    let unlisted = unlisted.ok().map(|model| Model { takes_temperature: true, ..model });
    let unlisted = unlisted.filter(|_| provider_config.whitelist.is_none());
    if made.is_empty() && unlisted.is_none() {
        return Err(Lack::Models);
    }
    Ok(ProviderEntry { id: id.to_owned(), name: base.name.clone(), models: made, unlisted, barred, is_asked })
}

/// Finds the credentials of a provider.
fn find_credentials(
    known: &Known<'_>,
    config: &Config,
    provider_config: &ProviderConfig,
    access: &foreign::Access<'_>,
    variables: &[String],
) -> Found {
    let (id, of_plugin) = (known.id, known.options);
    let foreign::Access { environment, credentials, is_foreign } = *access;
    let login = login(id, provider_config, environment, credentials).filter(|_| of_plugin.is_none());
    let own_key = || api_key(id, provider_config, variables, environment, credentials);
    let api_key = of_plugin.and_then(|it| it.api_key.clone()).or_else(own_key).filter(|_| login.is_none());
    let aws = aws_account(known, config, api_key.is_some()).filter(|_| !is_foreign);
    let has_key = api_key.is_some() || login.is_some() || of_plugin.is_some();
    let cloud = exchange::of_cloud(known, config, credentials).filter(|_| !has_key && !is_foreign);
    Found { api_key, login, aws, cloud }
}

/// Makes the models that can be used, the best first, and returns the first reason that another cannot be.
fn make_models(
    base: &Base<'_>,
    models: &BTreeMap<String, Offered>,
    is_configured: bool,
    warnings: &mut Vec<Warning>,
) -> (Vec<Model>, Option<Lack>) {
    let mut made = Vec::new();
    let mut lack = None;
    for (model_id, offered) in models {
        match model(base, model_id, offered) {
            Ok(model) => made.push((rank::of(base.id, model_id, &offered.config), model)),
            Err(reason) => {
                let warning = warning(&format!("provider.{}", base.id), explain(&reason));
                // One warning serves all models of the provider.
                if is_configured && !warnings.contains(&warning) {
                    warnings.push(warning);
                }
                lack = lack.or(Some(reason));
            }
        }
    }
    made.sort_by(|(one, _), (other, _)| other.cmp(one));
    (made.into_iter().map(|(_, model)| model).collect(), lack)
}

/// Returns the account that signs requests to Amazon's models; `None` if nothing asks for them.
fn aws_account(known: &Known<'_>, config: &Config, has_key: bool) -> Option<Arc<Account>> {
    let (configured, environment) = (config.providers.get(known.id), &config.environment);
    let named = config.settings.windlass.wire.get(known.id).map(|wire| packages::of_wire(*wire));
    let own = named.or(configured.and_then(|it| it.npm.as_deref()));
    let npm = own.or(known.listed.and_then(|listed| listed.npm.as_deref()))?;
    if !npm.starts_with("@ai-sdk/amazon-bedrock") {
        return None;
    }
    let options = configured.map(|it| &it.options);
    let region = options.and_then(|options| options.region.as_deref());
    let profile = options.and_then(|options| options.profile.as_deref());
    let account = Account::new(environment, region, profile);
    // A configured provider may have credentials that no variable tells of, as those of a machine.
    (configured.is_some() || has_key || account.has_credentials()).then(|| Arc::new(account))
}

/// Returns the lack of a key that one of these variables may hold.
fn lacking_key(id: &str, variables: Vec<String>, environment: &Environment) -> Lack {
    let is_empty = |name: &&String| environment.variables.get(*name).is_some_and(String::is_empty);
    match variables.iter().find(is_empty) {
        Some(empty) => Lack::EmptyKey(empty.clone()),
        None => {
            let account = rows::find(id).and_then(|row| row.account).map(str::to_owned);
            Lack::Key(variables.into_iter().take(1).chain(account).collect())
        }
    }
}

/// Describes a lack in a warning.
fn explain(lack: &Lack) -> String {
    match lack {
        Lack::Package(package) => {
            format!("npm package {package} is not known; name its protocol under `windlass.wire`")
        }
        Lack::Variable(name) => format!("needs the variable {name}"),
        Lack::Address
        | Lack::Key(_)
        | Lack::EmptyKey(_)
        | Lack::Models
        | Lack::ServerModels
        | Lack::Switch(_) => "has no address: set options.baseURL".to_owned(),
    }
}

fn base<'a>(known: &Known<'a>, stated: &Stated<'a>) -> Base<'a> {
    let Known { id, listed, .. } = *known;
    let Stated { provider: provider_config, wire, environment } = *stated;
    let options = &provider_config.options;
    let row = rows::find(id);
    let own_server = own_server(environment).filter(|_| id == "openai");
    let npm = match wire {
        Some(wire) => packages::of_wire(*wire),
        // Servers that are put into OpenAI's place speak chat completions.
        None if own_server.is_some() && provider_config.npm.is_none() => "@ai-sdk/openai-compatible",
        None => {
            let own = provider_config.npm.as_deref().or(row.and_then(|row| row.npm));
            own.or(listed.and_then(|listed| listed.npm.as_deref())).unwrap_or("@ai-sdk/openai-compatible")
        }
    };
    let npm = match (npm, options.use_completion_urls) {
        ("@ai-sdk/azure", Some(true)) => packages::AZURE_COMPLETIONS,
        (npm, _) => npm,
    };
    let fill = |text: &String| address::fill(text, environment);
    let fixed = row.into_iter().flat_map(|row| row.headers);
    let fixed: Vec<(String, String)> =
        fixed.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let name = provider_config.name.clone().or(listed.map(|listed| listed.name.clone()));
    Base {
        id,
        name: name.unwrap_or_else(|| id.to_owned()),
        npm,
        row,
        environment,
        configured_url: options
            .base_url
            .as_ref()
            .or(options.endpoint.as_ref())
            .map(fill)
            .filter(|url| !url.is_empty()),
        provider_url: provider_config.api.as_ref().map(fill).or(own_server.map(str::to_owned)),
        vendor_url: row.and_then(|row| row.url).or(listed.and_then(|listed| listed.api.as_deref())),
        api_key: None,
        key_variable: None,
        aws: None,
        cloud: None,
        stored: BTreeMap::new(),
        login: None,
        headers: overlay_headers(&fixed, &options.headers),
        fetch: None,
        set_cache_key: options.set_cache_key,
        is_litellm: options.litellm_proxy == Some(true),
        timeouts: timeouts(provider_config),
        is_foreign: false,
    }
}

impl Base<'_> {
    /// Sets the options of a plugin.
    fn set(&mut self, of_plugin: Option<&PluginOptions>) {
        let Some(PluginOptions { base_url, headers, fetch, api_key: _ }) = of_plugin else { return };
        if base_url.is_some() {
            self.configured_url.clone_from(base_url);
        }
        self.headers = overlay_headers(&self.headers, headers);
        self.fetch.clone_from(fetch);
    }

    /// Gives the provider the address and the headers of the login's plan.
    fn log_in(&mut self, login: Login) {
        if let Some(plan) = login.plan {
            let url = plan.instance_url.filter(|_| login.instance.is_some()).or(plan.url);
            self.vendor_url = url.or(self.vendor_url);
            for (name, value) in plan.headers {
                if !self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                    self.headers.push(((*name).to_owned(), (*value).to_owned()));
                }
            }
        }
        self.login = Some(login);
    }
}

/// Finds the provider's login, unless there is a key in the configuration.
fn login(
    id: &str,
    provider_config: &ProviderConfig,
    environment: &Environment,
    credentials: &Credentials,
) -> Option<Login> {
    let Some(AuthEntry::Oauth { enterprise_url, .. }) = credentials.get(id) else { return None };
    let has_key = provider_config.options.api_key.as_ref().is_some_and(|key| !key.is_empty());
    // Another server in OpenAI's place is not meant to get its tokens.
    let is_elsewhere = own_server(environment).is_some() && id == "openai";
    if has_key || is_elsewhere || logins::issuer(id).is_none() {
        return None;
    }
    Some(Login { plan: plans::find(id), instance: enterprise_url.as_deref().map(logins::host) })
}

/// Keeps the models that the server lists, with the limits that it names.
fn list_served(models: &mut BTreeMap<String, Offered>, served: Vec<Served>) {
    // A mode has the id of its model.
    let is_served = |id: &str| served.iter().any(|it| it.id == id);
    models.retain(|id, offered| is_served(offered.config.id.as_deref().unwrap_or(id)));
    for Served { id, name, context, output, takes_images, endpoints } in served {
        let Offered { config, endpoint, .. } = models.entry(id).or_default();
        config.name = config.name.take().or(name);
        config.attachment = config.attachment.or(takes_images);
        *endpoint = endpoints.into_iter().find(|it| dialect::wire_of(it).is_some());
        if let Some(context) = context {
            let known = config.limit.unwrap_or_default();
            config.limit = Some(ModelLimit { context, output: output.unwrap_or(known.output), ..known });
        }
    }
}

/// Returns the models that a provider offers, and the names of those that it does not.
fn offered_models(
    known: &Known<'_>,
    stated: &Stated<'_>,
    has_own_server: bool,
    is_free: bool,
    served: Option<Vec<Served>>,
) -> (BTreeMap<String, Offered>, Vec<String>) {
    let (id, Stated { provider: provider_config, environment, .. }) = (known.id, *stated);
    let mut models: BTreeMap<String, Offered> = BTreeMap::new();
    // Another server under the same variable does not have the vendor's models.
    if let Some(listed) = known.listed.filter(|_| !has_own_server) {
        for (model_id, entry) in known.table.models(listed) {
            for (mode, mut config) in entry.modes() {
                config.id = Some(model_id.clone());
                let offered =
                    Offered { config, reasoning: entry.reasoning_options.clone(), ..Offered::default() };
                models.insert(format!("{model_id}-{mode}"), offered);
            }
            let config = entry.config();
            let offered = Offered { config, reasoning: entry.reasoning_options, ..Offered::default() };
            models.insert(model_id, offered);
        }
    }
    if let Some(served) = served {
        list_served(&mut models, served);
    }
    if is_free {
        models.retain(|_, model| model.config.cost.as_ref().is_none_or(|cost| cost.input == 0.0));
    }
    if let Some(model) = environment.get("OPENAI_MODEL").filter(|_| id == "openai") {
        models.entry(model.to_owned()).or_default();
    }
    for (model_id, over) in &provider_config.models {
        let known = models.remove(model_id).unwrap_or_default();
        let config = overlay(known.config, over);
        models.insert(model_id.clone(), Offered { config, ..known });
    }
    let shows_alpha = environment.is_on("OPENCODE_ENABLE_EXPERIMENTAL_MODELS");
    let is_offered = |model_id: &String, model: &ModelConfig| {
        let is_listed = provider_config.whitelist.as_ref().is_none_or(|list| list.contains(model_id));
        let is_barred = provider_config.blacklist.as_ref().is_some_and(|list| list.contains(model_id));
        let is_hidden = match model.status.as_deref() {
            Some("alpha") => !shows_alpha,
            Some("deprecated") => true,
            Some(_) | None => false,
        };
        is_listed && !is_barred && !is_hidden
    };
    let mut barred = provider_config.blacklist.clone().unwrap_or_default();
    let hidden = models.iter().filter(|(id, model)| !is_offered(id, &model.config));
    barred.extend(hidden.map(|(id, _)| id.clone()));
    models.retain(|model_id, model| is_offered(model_id, &model.config));
    (models, barred)
}

/// Makes a model of a provider, unless the provider lacks a necessity.
fn model(base: &Base<'_>, model_id: &str, offered: &Offered) -> Result<Model, Lack> {
    let config = &offered.config;
    let own = config.provider.clone().unwrap_or_default();
    // A row's package stands for one address with one protocol for all models.
    let is_uniform = base.row.is_some_and(|row| row.npm.is_some()) && own.api.is_none();
    let npm = own.npm.as_deref().filter(|_| !is_uniform).unwrap_or(base.npm);
    let package = packages::find(npm).ok_or_else(|| Lack::Package(npm.to_owned()))?;
    let own_url = own.api.as_deref().map(|url| address::of_vendor(url, base)).transpose()?;
    let address = match base.configured_url.clone().or(own_url).or(base.provider_url.clone()) {
        Some(url) => url,
        None => address::of_vendor(base.vendor_url.or(package.url).ok_or(Lack::Address)?, base)?,
    };
    let api_id = config.id.as_deref().unwrap_or(model_id);
    let Dialect { wire, mut quirks, folder, api_id } =
        dialect_of(base, package, api_id, offered.endpoint.as_deref());
    let base_url = match folder {
        "" => address,
        _ => format!("{}/{folder}", trim(&address)),
    };
    quirks = quirks.and(placeholder::quirks(wire, npm, [base.id, &api_id], base.is_litellm));
    let plan = base.login.as_ref().and_then(|login| login.plan);
    quirks = quirks.and(plan.map(|plan| plan.quirks).unwrap_or_default());
    let limit = plan.and_then(|plan| (plan.limit)(&api_id)).or(config.limit).unwrap_or_default();
    let is_flat = plan.is_some_and(|plan| plan.is_flat);
    let reasons = config.reasoning.unwrap_or(false);
    let (provider, row) = (base.id, base.row);
    let subject = Subject { provider, row, api_id: &api_id, wire, quirks, reasons, output: limit.output };
    let takes = |kind: &str| {
        config.modalities.as_ref().map(|modalities| modalities.input.iter().any(|input| input == kind))
    };
    let mut headers = base.headers.clone();
    if let Some((name, value)) = defaults::headers(&subject)
        && !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    {
        headers.push((name.to_owned(), value.to_owned()));
    }
    let variants =
        defaults::with_written(defaults::variants(&subject, offered.reasoning.as_deref()), &config.variants);
    Ok(Model {
        provider_id: base.id.to_owned(),
        provider_name: base.name.clone(),
        id: model_id.to_owned(),
        name: config.name.clone().unwrap_or_else(|| model_id.to_owned()),
        wire,
        base_url: trim(&base_url).to_owned(),
        is_foreign: base.is_foreign,
        api_key: base.api_key.clone(),
        aws: base.aws.clone(),
        has_login: base.login.is_some(),
        key_variable: base.key_variable.clone(),
        exchange: exchange::of(base, npm, &base_url),
        auth: base.row.and_then(|row| row.auth).unwrap_or(package.auth),
        quirks,
        headers: overlay_headers(&headers, &config.headers),
        fetch: base.fetch.clone(),
        limit,
        cost: config.cost.clone().filter(|_| !is_flat).unwrap_or_default(),
        takes_images: takes("image").or(config.attachment).unwrap_or(false),
        takes_pdf: takes("pdf").unwrap_or(false),
        takes_tools: config.tool_call.unwrap_or(true),
        takes_temperature: config.temperature.unwrap_or(false),
        reasons,
        sampling: defaults::sampling(&api_id),
        options: options(base, &subject, config),
        variants,
        timeouts: base.timeouts,
        api_id,
    })
}

/// Returns a model's protocol, with the peculiarities of its package and its provider.
fn dialect_of(base: &Base<'_>, package: &Package, api_id: &str, endpoint: Option<&str>) -> Dialect {
    let quirks = package.quirks.and(base.row.map(|row| row.quirks).unwrap_or_default());
    if let Some(of_model) = package.dialect {
        return of_model(quirks, api_id, endpoint);
    }
    let api_id = match (&base.aws, package.wire) {
        (Some(account), Wire::Bedrock) => bedrock::regional_id(api_id, account.region()),
        (Some(_) | None, _) => api_id.to_owned(),
    };
    Dialect { wire: package.wire, quirks, folder: "", api_id }
}

/// Returns the options of a model's requests: our defaults, and over them those of the configuration.
fn options(base: &Base<'_>, subject: &Subject<'_>, config: &ModelConfig) -> Map<String, Value> {
    let mut options = defaults::options(subject);
    if let Some(interleaved) = config.interleaved.as_ref().filter(|value| !value.is_boolean()) {
        options.insert("interleaved".to_owned(), interleaved.clone());
    }
    if let Some(set_cache_key) = base.set_cache_key {
        options.insert("setCacheKey".to_owned(), set_cache_key.into());
    }
    options.extend(config.options.clone());
    options
}

/// Returns the variables that may hold a provider's key, the first one first.
pub(super) fn key_variables(
    id: &str,
    listed: Option<&Listed>,
    provider_config: &ProviderConfig,
) -> Vec<String> {
    let mut names: Vec<String> = provider_config.env.clone();
    let row = rows::find(id).map(|row| row.keys).unwrap_or_default();
    if row.is_empty() {
        let env = listed.map(|listed| listed.env.as_slice()).unwrap_or_default();
        // The others are parts of the address.
        let is_key = |name: &&String| ["KEY", "TOKEN", "PAT"].iter().any(|end| name.ends_with(end));
        names.extend(env.iter().filter(is_key).cloned());
    } else {
        names.extend(row.iter().map(|name| (*name).to_owned()));
    }
    names
}

/// Finds the key: in the configuration, then in saved logins, then in the environment.
fn api_key(
    id: &str,
    provider_config: &ProviderConfig,
    variables: &[String],
    environment: &Environment,
    credentials: &Credentials,
) -> Option<Secret> {
    let configured = provider_config.options.api_key.clone().filter(|key| !key.is_empty());
    let saved = || match credentials.get(id)? {
        AuthEntry::Api { key, .. } => Some(key.clone()),
        AuthEntry::Oauth { .. } | AuthEntry::Wellknown { .. } => None,
    };
    // GitHub's own programs read it too, so it does not ask for Copilot.
    let variables = variables.iter().filter(|name| *name != "GITHUB_TOKEN");
    let in_environment = || variables.into_iter().find_map(|name| environment.get(name)).map(str::to_owned);
    configured.or_else(saved).or_else(in_environment).map(Secret)
}

fn timeouts(provider_config: &ProviderConfig) -> Timeouts {
    let options = &provider_config.options;
    let limit = |value: &Option<Value>| match value {
        Some(Value::Bool(false)) => Some(None),
        Some(value) => {
            value.as_u64().filter(|&value| value > 0).map(|value| Some(Duration::from_millis(value)))
        }
        None => None,
    };
    Timeouts {
        headers: limit(&options.header_timeout).map_or(Timeouts::DEFAULT.headers, or_none),
        chunk: limit(&options.chunk_timeout).map_or(Timeouts::DEFAULT.chunk, or_none),
        total: limit(&options.timeout).flatten(),
    }
}

/// Returns a limit, or the longest duration for none.
fn or_none(limit: Option<Duration>) -> Duration {
    limit.unwrap_or(Duration::MAX)
}

fn overlay(under: ModelConfig, over: &ModelConfig) -> ModelConfig {
    let ModelConfig {
        id,
        name,
        family,
        attachment,
        reasoning,
        temperature,
        tool_call,
        experimental,
        limit,
        cost,
        modalities,
        options,
        headers,
        status,
        release_date,
        interleaved,
        variants,
        provider,
    } = over.clone();
    ModelConfig {
        id: id.or(under.id),
        name: name.or(under.name),
        family: family.or(under.family),
        attachment: attachment.or(under.attachment),
        reasoning: reasoning.or(under.reasoning),
        temperature: temperature.or(under.temperature),
        tool_call: tool_call.or(under.tool_call),
        experimental: experimental.or(under.experimental),
        limit: limit.or(under.limit),
        cost: cost.or(under.cost),
        modalities: modalities.or(under.modalities),
        options: under.options.into_iter().chain(options).collect::<Map<String, Value>>(),
        headers: under.headers.into_iter().chain(headers).collect(),
        status: status.or(under.status),
        release_date: release_date.or(under.release_date),
        interleaved: interleaved.or(under.interleaved),
        variants: under.variants.into_iter().chain(variants).collect(),
        provider: provider.or(under.provider),
    }
}

/// Merges headers; their names are compared without case.
fn overlay_headers(under: &[(String, String)], over: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let is_replaced = |name: &str| over.keys().any(|upper| upper.eq_ignore_ascii_case(name));
    let kept = under.iter().filter(|(name, _)| !is_replaced(name)).cloned();
    // An empty one takes a header away.
    let over = over.iter().filter(|(_, value)| !value.is_empty());
    kept.chain(over.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

pub(super) fn trim(url: &str) -> &str {
    url.trim().trim_end_matches('/')
}
